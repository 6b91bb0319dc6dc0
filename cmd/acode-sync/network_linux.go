package main

import (
	"context"

	"golang.org/x/sys/unix"
)

// watchNetwork calls changed when an address or a link of this machine came or went: a server
// that could not be reached may be now.
func watchNetwork(ctx context.Context, changed func()) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return // the backoff alone will do
	}
	defer func() { _ = unix.Close(fd) }()
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV4_ROUTE)
	if unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}) != nil {
		return
	}
	buf := make([]byte, 8192)
	for ctx.Err() == nil {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if err != nil && err != unix.EINTR {
			return
		}
		if ready > 0 {
			if _, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT); err == nil {
				changed()
			}
		}
	}
}
