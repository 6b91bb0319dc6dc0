package syncer

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// watchNetwork calls changed when an address or a link of this machine came or went: a server
// that could not be reached may be now.
func watchNetwork(ctx context.Context, changed func()) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return // the backoff alone will do
	}
	news := os.NewFile(uintptr(fd), "netlink")
	defer func() { _ = news.Close() }()
	stopped := context.AfterFunc(ctx, func() { _ = news.Close() })
	defer stopped()
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV4_ROUTE)
	if unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}) != nil {
		return
	}
	buf := make([]byte, 8192)
	for {
		// ENOBUFS says that there was more news than the kernel kept.
		if _, err := news.Read(buf); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		changed()
	}
}
