#!/bin/sh
# First and only process of User Mode Linux. It sees the host's files, which it cannot change but in the folder in which this script is: there it
# finds the script of the guest, and leaves its status.
work=$(dirname "$0")
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc none /proc
mount -t sysfs none /sys
grep -q ' /dev devtmpfs ' /proc/mounts || mount -t devtmpfs none /dev
mount -t tmpfs none /run
mkdir /run/work
mount -t hostfs -o "$work" none /run/work
mount -t tmpfs none /tmp
export PATH IN=/run/work/in OUT=/run/work/out HOME=/tmp
cp /run/work/script /tmp/script
modprobe() { command modprobe -d /run/work/modules "$@"; }
(cd /tmp && . /tmp/script) </dev/null
status=$?
[ $status = 0 ] || dmesg | tail -n 20
echo $status >"$OUT/status"
sync
echo o >/proc/sysrq-trigger
sleep 60
