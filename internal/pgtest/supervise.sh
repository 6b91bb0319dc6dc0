#!/bin/sh
# Runs a server for somebody who may be killed: supervise.sh ROOT SERVER [ARGUMENT...].
#
# ROOT holds all that is the server's. A line "start" on standard input starts it; "pid N"
# and, when it has ended, "gone STATUS" are told on standard output. At the end of the input,
# which also comes when the other side is killed, the server is stopped at once, and ROOT goes.
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
# A server that was killed leaves a segment of shared memory, which only its successor removes.
segment=$(sed -n 7p "$root/data/postmaster.pid" 2>/dev/null | awk '{ print $2 }')
[ -n "$segment" ] && ipcrm -m "$segment" 2>/dev/null
tries=100 # somebody killed may have left a program that still writes there
until rm -rf "$root" 2>/dev/null || [ $((tries -= 1)) -eq 0 ]; do
	sleep 0.05
done
