#!/bin/bash
# What tests/vm/ublk.sh does inside the virtual machine, as its first program; guest.sh says how it reports.
. /guest.sh
echo 60 >/proc/sys/kernel/hung_task_timeout_secs
part=start

limited() { timeout -s KILL "$@"; }
queue() { cat "/sys/block/$1/queue/$2"; }
random() { dd if=/dev/urandom of="$1" bs=1M count="$2" status=none; } # FILE MIB

server=
# ARGUMENT...: the server; says when its devices are there.
serve() {
  rm -f /tmp/pid /tmp/said
  hoistway serve --ublk --pidfile /tmp/pid --control /tmp/control "$@" 2>/tmp/said &
  server=$!
  local n=0
  until [ -e /tmp/pid ]; do
    n=$((n + 1))
    if ! kill -0 $server 2>/dev/null || [ $n -gt 600 ]; then
      cat /tmp/said
      failed "serve $*: $(tail -2 /tmp/said | tr '\n' ' ')"
      return 1
    fi
    sleep 0.1
  done
  cat /tmp/said
}
# The device of an export, without the folder.
disk() { sed -n "s/^export $1: \/dev\///p" /tmp/said; }
# LIMIT [CODE]: asks the server to end, which is to do so with that exit code, 0 if not given, and leave nothing.
stop() {
  local begun n=0 wanted=${2:-0}
  begun=$(date +%s)
  kill -TERM $server
  while kill -0 $server 2>/dev/null; do
    n=$((n + 1))
    if [ $n -gt $(($1 * 10)) ]; then
      failed "SIGTERM: it has not ended after $1 s"
      for task in /proc/$server/task/*; do
        echo "$task $(cat "$task/comm") $(cat "$task/wchan")"; cat "$task/stack"
      done
      kill -KILL $server
      break
    fi
    sleep 0.1
  done
  wait $server
  local code=$?
  cat /tmp/said
  same "SIGTERM: exit code" "$wanted" $code
  same "SIGTERM: devices left" "" "$(ls /dev | grep -E 'ublk[bc]' | tr '\n' ' ')"
  echo "stopped in $(($(date +%s) - begun)) s"
}
die() { # SIGKILL, and until it is gone
  kill -KILL $server
  wait $server
}
gone() { # DEVICE: within 10 s
  local n=0
  while [ -e "/sys/block/$1" ] && [ $n -lt 100 ]; do n=$((n + 1)); sleep 0.1; done
  [ ! -e "/sys/block/$1" ]
}

# --- parts -----------------------------------------------------------------------------------------

part_absent() {
  hoistway serve --ublk -e a=ram:8M 2>/tmp/said
  same "exit code without the driver" 3 $?
  must "it says how to load the driver" grep -q 'modprobe ublk_drv' /tmp/said
}

part_load() {
  local name
  for name in $(cat /modules/order); do
    [ -d "/sys/module/$name" ] || must "module $name" insmod "/modules/$name.ko"
  done
  must "the control device is there" test -c /dev/ublk-control
  must "hoistway list fronts finds nothing missing" bash -c "hoistway list fronts | grep ublk | grep -qv missing"
}

# The library's own tests, which look for the driver.
part_unit() {
  [ -x /usr/sbin/hoistway-serve-tests ] || return
  must "unit tests of the front-end" limited 120 hoistway-serve-tests front::ublk
}

# Data goes through unharmed, ends where the device ends; what is cut out is zero and nothing else.
patterns() { # DEVICE MIB
  local device=/dev/$1 size=$2
  random pattern 8
  must "8 MiB written, direct" dd if=pattern of="$device" bs=1M oflag=direct status=none
  must "8 MiB read back in requests of another size" \
    bash -c "dd if=$device bs=96k count=8M iflag=direct,count_bytes status=none | cmp - pattern"
  must "at the very end" dd if=pattern of="$device" bs=64k count=1 seek=$((size * 16 - 1)) oflag=direct status=none
  must "read back" bash -c "dd if=$device bs=64k skip=$((size * 16 - 1)) iflag=direct status=none | cmp -n 65536 - pattern"
  same "bytes read beyond the end" 0 "$(dd if="$device" bs=4k skip=$((size * 256)) status=none | wc -c)"
  refused "a write beyond the end" dd if=pattern of="$device" bs=4k count=1 seek=$((size * 256)) status=none
  must "write through the cache, one by one" dd if=pattern of="$device" bs=64k oflag=dsync seek=128 count=32 status=none
  must "buffered write and fsync" dd if=pattern of="$device" bs=1M count=4 seek=16 conv=fsync status=none
  echo 3 >/proc/sys/vm/drop_caches
  must "read back after the cache was dropped" bash -c "dd if=$device bs=1M skip=16 count=4 status=none | cmp -n 4194304 - pattern"
}

cuts() { # DEVICE
  local device=/dev/$1
  dd if=pattern of="$device" bs=1M count=8 oflag=direct status=none
  dd if=pattern of=wanted bs=1M count=8 status=none
  must "blkdiscard" blkdiscard -o 1M -l 1M "$device"
  dd if=/dev/zero of=wanted bs=1M count=1 seek=1 conv=notrunc status=none
  must "what was discarded is zero, its neighbours are not" bash -c "dd if=$device bs=1M count=8 iflag=direct status=none | cmp - wanted"
  must "blkdiscard -z" blkdiscard -z -o 4M -l 3M "$device"
  dd if=/dev/zero of=wanted bs=1M count=3 seek=4 conv=notrunc status=none
  must "zeroes were written, their neighbours are whole" bash -c "dd if=$device bs=1M count=8 iflag=direct status=none | cmp - wanted"
  must "blkdiscard -z of single blocks" blkdiscard -z -o 512 -l 1536 "$device"
  dd if=/dev/zero of=wanted bs=512 count=3 seek=1 conv=notrunc status=none
  must "they alone are zero" bash -c "dd if=$device bs=1M count=8 iflag=direct status=none | cmp - wanted"
  refused "secure erase, which was not offered" blkdiscard -s "$device"
  must "blkdiscard of all" blkdiscard "$device"
  must "all is zero" bash -c "dd if=$device bs=1M count=32 iflag=direct status=none | cmp -n 33554432 - /dev/zero"
}

file_system() { # DEVICE
  local device=/dev/$1 n
  must "mkfs.ext4" limited 120 mkfs.ext4 -q -F "$device"
  must "mount" mount -t ext4 -o discard "$device" /mnt
  random content 4
  for n in 1 2 3 4 5 6; do cp content "/mnt/$n" && sync; done
  must "files and fsync" dd if=content of=/mnt/synced bs=4k count=64 conv=fsync status=none
  rm /mnt/2 /mnt/4
  must "fstrim" fstrim /mnt
  must "umount" umount /mnt
  must "e2fsck finds nothing" limited 120 e2fsck -fn "$device"
  must "mount again" mount -t ext4 "$device" /mnt
  for n in 1 3 5 6; do must "file $n" cmp "/mnt/$n" content; done
  must "umount again" umount /mnt
}

part_ram() {
  serve -e disk=ram:64M || return
  local d
  d=$(disk disk)
  same "sectors" 131072 "$(cat "/sys/block/$d/size")"
  same "logical block" 512 "$(queue "$d" logical_block_size)"
  same "physical block" 4096 "$(queue "$d" physical_block_size)"
  same "read-only" 0 "$(cat "/sys/block/$d/ro")"
  same "rotational" 0 "$(queue "$d" rotational)"
  same "cache" "write back" "$(queue "$d" write_cache)"
  must "no scheduler of the kernel's above ours" grep -q '\[none\]' "/sys/block/$d/queue/scheduler"
  same "forced unit access" 1 "$(queue "$d" fua)"
  same "longest request (KiB)" 512 "$(queue "$d" max_hw_sectors_kb)"
  must "discards are offered" test "$(queue "$d" discard_max_bytes)" -gt 0
  must "zeroes are offered" test "$(queue "$d" write_zeroes_max_bytes)" -gt 0
  same "for root alone" 600 "$(stat -c %a "/dev/$d")"
  patterns "$d" 64
  cuts "$d"
  file_system "$d"
  stop 20
}

part_file() {
  truncate -s 64M image
  # A partition table, which is read while the device starts: 1 MiB in, 32 MiB long.
  printf '\000\000\000\000\203\000\000\000\000\010\000\000\000\000\001\000' | dd of=image bs=1 seek=446 conv=notrunc status=none
  printf '\125\252' | dd of=image bs=1 seek=510 conv=notrunc status=none
  random mine 4
  cp mine fixed
  serve -e disk=file:/tmp/image -e fixed=file:/tmp/fixed,ro -s bfq || return
  local d f n
  d=$(disk disk); f=$(disk fixed)
  same "two devices" 2 "$(ls -d /sys/block/ublkb* | wc -l)"
  same "partition" 65536 "$(cat "/sys/block/$d/${d}p1/size")"
  same "the other is read-only" 1 "$(cat "/sys/block/$f/ro")"
  refused "a write to the one that is read-only" dd if=mine of="/dev/$f" bs=4k count=1 oflag=direct status=none
  refused "a discard of the one that is read-only" blkdiscard "/dev/$f"
  refused "zeroes for the one that is read-only" blkdiscard -z "/dev/$f"
  must "the one that is read-only reads" cmp "/dev/$f" mine
  file_system "${d}p1"
  dd if=mine of="/dev/$d" bs=4k seek=$((40 * 256)) oflag=direct status=none &
  n=$!
  for _ in 1 2 3; do
    dd if="/dev/$f" bs=64k iflag=direct status=none | cmp - mine || failed "reads beside writes"
  done
  wait $n
  must "written beside reads of the other" bash -c "dd if=/dev/$d bs=1M skip=40 count=4 iflag=direct status=none | cmp - mine"
  dd if=mine of="/dev/$d" bs=1M seek=48 conv=fsync status=none
  dd if=mine of="/dev/$d" bs=1M seek=54 status=none
  stop 20
  must "what was synced is in the file" bash -c "dd if=image bs=1M skip=48 count=4 status=none | cmp - mine"
  must "so is what was only written, since its program closed the device" bash -c "dd if=image bs=1M skip=54 count=4 status=none | cmp - mine"
  must "the file that is read-only is as it was" cmp fixed mine
}

# A drive with blocks of 4096 bytes, past the page cache.
part_blocks() {
  truncate -s 64M large
  local l d
  l=$(losetup --find --show --sector-size 4096 large) || { failed losetup; return; }
  serve -e "disk=file:$l,direct" || return
  d=$(disk disk)
  same "logical block" 4096 "$(queue "$d" logical_block_size)"
  same "sectors" 131072 "$(cat "/sys/block/$d/size")"
  refused "a request of half a block" dd if=/dev/zero of="/dev/$d" bs=512 count=1 oflag=direct status=none
  patterns "$d" 64
  stop 20
  losetup -d "$l"
  rm large
}

# Discards and zeroes longer than a result can say, on memory that takes none for them.
part_large() {
  serve -e disk=ram:20G || return
  local d
  d=$(disk disk)
  random tail 1
  dd if=tail of="/dev/$d" bs=1M seek=20479 oflag=direct status=none
  must "discard of all but the last MiB" limited 60 blkdiscard -l $((20479 << 20)) "/dev/$d"
  must "zeroes likewise" limited 60 blkdiscard -z -l $((20479 << 20)) "/dev/$d"
  must "the last MiB is there" bash -c "dd if=/dev/$d bs=1M skip=20479 iflag=direct status=none | cmp - tail"
  stop 20
}

# A drive of the emulator, as fast as this machine can carry.
part_emulated() {
  local d drive
  for drive in cloud-gp3 hdd-nearline-16tb laptop-hdd-2009; do
    serve -e "disk=emulate:$drive:256M" -s mq-deadline && break
    drive=
  done
  [ -n "$drive" ] || return
  report "an emulated $drive"
  d=$(disk disk)
  same "sectors" 524288 "$(cat "/sys/block/$d/size")"
  patterns "$d" 256
  must "mkfs.ext4 without discard" limited 300 mkfs.ext4 -q -F -E nodiscard "/dev/$d"
  must "e2fsck finds nothing" limited 300 e2fsck -fn "/dev/$d"
  stop 30
}

# Requests that wait longer than the kernel's patience with drives, which is 30 s.
part_slow() {
  serve -e disk=ram:64M,riops=2 || return
  local d begun
  d=$(disk disk)
  begun=$(date +%s)
  must "80 reads of a device with two a second" limited 120 fio --name=slow --filename="/dev/$d" --direct=1 --ioengine=libaio \
    --iodepth=80 --rw=randread --bs=4k --size=64M --number_ios=80 --output=/tmp/fio.out
  must "they took more than 30 s" test $(($(date +%s) - begun)) -gt 30
  stop 20
}

# Data is verified by fio while the scheduler behind the device changes.
part_switch() {
  serve -e disk=ram:128M -s none || return
  local d name n=0
  d=$(disk disk)
  limited 240 fio --name=verify --filename="/dev/$d" --direct=1 --ioengine=libaio --iodepth=32 --rw=randwrite --bs=4k-64k \
    --bsrange=4k-64k --size=96M --verify=crc32c --verify_fatal=1 --verify_backlog=64 --output=/tmp/fio.out &
  local load=$!
  sleep 1
  while kill -0 $load 2>/dev/null; do
    for name in bfq mq-deadline kyber none deadline cfq 'bfq{low_latency=0}'; do
      limited 30 hoistway ctl --control /tmp/control scheduler "$name" || failed "ctl scheduler $name"
      n=$((n + 1))
    done
  done
  wait $load
  same "fio verifies (exit code)" 0 $?
  must "switches meanwhile: $n" test $n -ge 7
  must "the client is listed" bash -c "hoistway ctl --control /tmp/control list | grep -q 'ublk /dev/$d'"
  stop 20
}

# A device in use is served for 10 s more, then cut off.
part_busy() {
  serve -e disk=ram:64M || return
  local d
  d=$(disk disk)
  mkfs.ext4 -q -F "/dev/$d"
  mount -t ext4 "/dev/$d" /mnt
  (sleep 3; umount /mnt) &
  stop 20
  must "it waited for umount" bash -c "! grep -q ' /mnt ' /proc/mounts"
  must "it says who used it" grep -q 'a file system on /mnt' /tmp/said

  serve -e disk=ram:64M || return
  d=$(disk disk)
  mkfs.ext4 -q -F "/dev/$d"
  mount -t ext4 -o errors=continue "/dev/$d" /mnt
  random /mnt/content 4
  stop 30
  must "a mounted device is cut off, which is said" grep -q 'is cut off from' /tmp/said
  must "the device is gone" gone "$d"
  must "the dead file system can be unmounted" umount /mnt

  # Open, but not for itself alone.
  serve -e disk=ram:64M || return
  d=$(disk disk)
  sleep 1000 <"/dev/$d" &
  local sleeper=$!
  stop 20
  kill $sleeper

  serve -e disk=ram:64M || return
  d=$(disk disk)
  limited 60 fio --name=load --filename="/dev/$d" --direct=1 --ioengine=libaio --iodepth=64 --rw=randrw --bs=4k --size=64M \
    --time_based --runtime=40 --output=/tmp/fio.out &
  local load=$!
  sleep 2
  stop 20
  wait $load
  n=$?
  must "under load: its users get errors rather than wait (fio: $n)" test $n -ne 0 -a $n -ne 137
}

# Storage too slow to take in time what a file system above it has not written yet.
part_patience() {
  serve -e disk=ram:256M,wbps=1M --stop-limit 5s || return
  local d
  d=$(disk disk)
  mkfs.ext4 -q -F -E lazy_itable_init=0,nodiscard -O ^has_journal "/dev/$d"
  mount -t ext4 "/dev/$d" /mnt
  dd if=/dev/zero of=/mnt/much bs=1M count=100 status=none
  stop 60 1
  must "it says what may be lost" grep -q 'may be lost' /tmp/said
  must "the device is gone" gone "$d"
  must "the dead file system can be unmounted" limited 60 umount /mnt
}

# The server is killed under load, and while it is mounted.
part_killed() {
  serve -e disk=ram:128M || return
  local d code
  d=$(disk disk)
  limited 60 fio --name=load --filename="/dev/$d" --direct=1 --ioengine=libaio --iodepth=32 --rw=randrw --bs=4k --size=128M \
    --time_based --runtime=40 --output=/tmp/fio.out &
  local load=$!
  sleep 3
  die
  wait $load
  code=$?
  must "its users get errors rather than wait (fio: $code)" test $code -ne 0 -a $code -ne 137
  must "the block device goes" gone "$d"
  echo "left: $(ls /dev | grep ublk | tr '\n' ' ')"

  serve -e disk=ram:64M || return
  d=$(disk disk)
  must "the next server says what it removed" grep -q '/dev/ublkc.* was removed' /tmp/said
  same "character devices" 1 "$(ls /dev | grep -c ublkc)"
  patterns "$d" 64
  mkfs.ext4 -q -F "/dev/$d"
  mount -t ext4 "/dev/$d" /mnt
  random /mnt/content 4
  die
  must "killed while mounted: the device goes" gone "$d"
  refused "files on it cannot be written" dd if=pattern of=/mnt/new bs=1M conv=fsync status=none
  serve -e disk=ram:64M || return
  d=$(disk disk)
  must "so does the one after that" grep -q '/dev/ublkc.* was removed' /tmp/said
  patterns "$d" 64
  must "the dead file system can be unmounted" limited 20 umount /mnt
  stop 20
  same "the machine goes on" 5 "$(echo 2 + 3 | bc)"
}

# Eight devices of one server, and servers one after the other.
part_many() {
  local n exports=
  for n in 1 2 3 4 5 6 7 8; do exports="$exports -e d$n=ram:$((15 + n))M"; done
  # shellcheck disable=SC2086
  serve $exports -s bfq || return
  same "devices" 8 "$(ls -d /sys/block/ublkb* | wc -l)"
  local pids=
  for n in 1 2 3 4 5 6 7 8; do
    ( random "p$n" 4; dd if="p$n" of="/dev/$(disk "d$n")" bs=64k oflag=direct status=none
      dd if="/dev/$(disk "d$n")" bs=4k count=1024 iflag=direct status=none | cmp - "p$n" ) &
    pids="$pids $!"
  done
  for n in $pids; do wait "$n" || failed "one of eight at once"; done
  ok "eight devices written and read at once"
  stop 30
  for n in 1 2 3; do serve -e disk=ram:16M && kill -TERM $server && wait $server || failed "round $n of starting and stopping"; done
  ok "started and stopped again"
  rm -f p?
}

# Requests a second, as fio sees them; this is an emulated or shared machine: compare with each other only.
measure() { # LABEL FILE DEPTH
  limited 60 fio --name=f --filename="$2" --direct=1 --ioengine=libaio --iodepth="$3" --rw=randread --bs=4k --size=64M --time_based \
    --runtime=5 --ramp_time=1 --output-format=terse --terse-version=3 --output=/tmp/fio.out || { failed "fio $1"; return; }
  report "figure $1, depth $3: $(cut -d';' -f8 /tmp/fio.out) random reads of 4 KiB a second, median $(cut -d';' -f26 /tmp/fio.out | cut -d= -f2) us"
}
part_figures() {
  local d l depth
  serve -e disk=ram:64M || return
  d=$(disk disk)
  dd if=/dev/urandom of="/dev/$d" bs=1M count=64 status=none conv=fsync
  for depth in 1 32; do measure "ublk" "/dev/$d" $depth; done
  stop 20
  mkdir -p /tmp/fuse
  rm -f /tmp/pid
  hoistway serve --fuse /tmp/fuse --pidfile /tmp/pid -e disk=ram:64M 2>/tmp/said &
  server=$!
  while [ ! -e /tmp/pid ] && kill -0 $server; do sleep 0.1; done
  l=$(losetup --find --show --direct-io=on /tmp/fuse/disk) || { failed "losetup"; kill $server; return; }
  dd if=/dev/urandom of="$l" bs=1M count=64 status=none conv=fsync
  for depth in 1 32; do measure "file by FUSE and loop device" "$l" $depth; done
  losetup -d "$l"
  kill -TERM $server
  wait $server
}

part_log() {
  dmesg >/tmp/dmesg
  if grep -qE 'WARNING:|BUG:|Oops|Call Trace|blocked for more than|rcu.*stall|refcount_t|general protection|KASAN|lockdep' /tmp/dmesg; then
    failed "the kernel complains"
    grep -nE -A30 'WARNING:|BUG:|Oops|blocked for more|stall|general protection' /tmp/dmesg | head -150
  else
    ok "no warning of the kernel"
  fi
}

report "up after $(cut -d' ' -f1 /proc/uptime) s: Linux $(uname -r)"
for part in absent load unit ram file blocks large emulated slow switch busy patience killed many figures log; do
  case "$only,$part" in
    ,*|*,load|*,log) ;;
    *) case ",$only," in *",$part,"*) ;; *) continue ;; esac ;;
  esac
  echo "##### $part, at $(cut -d' ' -f1 /proc/uptime)"
  part_$part
done
if [ $failures -eq 0 ]; then report "verdict: ok, after $(cut -d' ' -f1 /proc/uptime) s"; else report "verdict: $failures failed"; fi
sync
exec 3>&-
sleep 0.5
poweroff -f
