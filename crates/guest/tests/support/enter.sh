#!/bin/sh
# Builds a throwaway root file system around the guest binary and becomes it, as PID 1 and the guest's user. Run inside new
# PID and mount namespaces: enter.sh ROOT BINARY NODE
set -eu
root=$1 binary=$2 node=$3
mount -t tmpfs -o mode=0755 plimsoll-test "$root"
cd "$root"
mkdir -p bin lib lib64 sbin usr/local/bin usr/bin usr/lib usr/lib64 usr/sbin etc proc sys dev/shm run tmp work
for folder in bin sbin lib lib64; do
  [ ! -d "/$folder" ] || mount --bind "/$folder" "$folder"
done
for folder in bin sbin lib lib64; do
  [ ! -d "/usr/$folder" ] || mount --bind "/usr/$folder" "usr/$folder"
done
cp "$binary" usr/local/bin/plimsoll-guest
chmod 0755 usr/local/bin/plimsoll-guest
touch usr/local/bin/node
mount --bind "$node" usr/local/bin/node
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs -o mode=1777,noexec,nosuid,size=16m tmp tmp
mount -t tmpfs -o mode=1777,noexec,nosuid,size=16m shm dev/shm
mount -t tmpfs -o mode=1777,noexec,nosuid,size=48m work work
for device in null zero full random urandom; do
  touch "dev/$device"
  mount --bind "/dev/$device" "dev/$device"
done
echo 'root:x:0:0::/root:/bin/sh' >etc/passwd
echo box >etc/hostname
[ ! -e /etc/ld.so.cache ] || cp /etc/ld.so.cache etc/
echo secret >root-only
chmod 0600 root-only
exec env -i LEAK_OF_THE_ENGINE=1 /usr/sbin/chroot --userspec=61000:61000 --groups= "$root" /usr/local/bin/plimsoll-guest
