#!/usr/bin/env bash
# The first process of a host, in its own namespaces: makes it a host of its own, says so, then reaps orphans until its lifetime ends.
# first_process.sh STATE NAME ADDRESS SHM LIFETIME
set -eu
state=$1 name=$2 address=$3 shm=$4 lifetime=$5

# /proc is still the creator's: the number by which the creator enters this host.
read -r pid _ </proc/self/stat
mount -t proc proc /proc
mount -t tmpfs -o "size=$shm,mode=1777" tmpfs /dev/shm
# Same paths on every host, each with a memory of its own: sockets and folders named by user, job or process do not meet.
mount -t tmpfs -o size=256m,mode=1777 tmpfs "$state/tmp"
mount -t tmpfs -o size=64m tmpfs "$state/spool"
mount --bind "$state/names" /etc/hosts
hostname "$name"
ip link set lo up
if [[ $name == head ]]; then
  # A small disk that all hosts share: they are made from here.
  mount -t tmpfs -o size=64k,mode=1777 tmpfs "$state/disk"
  ip link add br0 type bridge
  ip addr add "$address/24" dev br0
  ip link set br0 up
  printf '%s\n' "$pid" >"$state/head.new" && mv "$state/head.new" "$state/head.pid"
else
  printf '%s\n' "$pid" >"$state/hosts/.$name" && mv "$state/hosts/.$name" "$state/hosts/$name"
  until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
  ip addr add "$address/24" dev eth0
  ip link set eth0 up
  touch "$state/tmp/ready"
fi

# Bash reaps whatever is orphaned here while it waits.
sleep "$lifetime" &
wait $!
