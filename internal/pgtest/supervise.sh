#!/bin/sh
# Runs a server for a process that may be killed: supervise.sh ROOT SERVER [ARGUMENT...].
#
# ROOT holds all files of the server. A line "start" on standard input starts the server. The
# script then prints "pid N" and, when the server has ended, "gone STATUS". The input ends when the
# other side closes it or is killed. The script then stops the server at once and removes ROOT.
trap '' HUP INT TERM PIPE
root=$1
shift
run() {
	"$@" </dev/null >>"$root/log" 2>&1 &
	echo $! >"$root/pid"
	echo "pid $!"
	wait $!
	status=$?
	rm -f "$root/pid"
	echo "gone $status"
}
while read -r line; do
	[ "$line" = start ] && run "$@" &
done
tries=0
while pid=$(cat "$root/pid" 2>/dev/null) && [ -n "$pid" ]; do
	kill -QUIT "$pid" # PostgreSQL stops at once, and old versions of PgBouncer ignore it
	kill -TERM "$pid"
	kill -CONT "$pid"
	[ $((tries += 1)) -lt 200 ] || kill -KILL "$pid"
	sleep 0.05
done 2>/dev/null
# A killed server leaves a segment of shared memory, which only a new server would remove.
segment=$(sed -n 7p "$root/data/postmaster.pid" 2>/dev/null | awk '{ print $2 }')
[ -n "$segment" ] && ipcrm -m "$segment" 2>/dev/null
tries=100 # a killed process may have left a program that still writes there
until rm -rf "$root" 2>/dev/null || [ $((tries -= 1)) -eq 0 ]; do
	sleep 0.05
done
