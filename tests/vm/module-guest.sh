#!/bin/bash
# What tests/vm/module.sh does inside the virtual machine, as its first program; guest.sh says how it reports.
. /guest.sh
echo +io >/sys/fs/cgroup/cgroup.subtree_control
echo 120 >/proc/sys/kernel/hung_task_timeout_secs
part=start

wanted() { part=$1; [ -z "$only" ] || [[ ,$only, = *,$1,* ]]; }
# The module is called after some of the schedulers, where it has not all.
parameter() { cat /sys/module/hoistway*/parameters/"$1"; }
set_parameter() { echo "$2" >"$(echo /sys/module/hoistway*/parameters)/$1"; }
memory() { parameter memory | tr ' ' '\n' | sed -n "/^$1\$/{n;p}"; }
choose() { # SCHEDULER DEVICE
  echo "$1" >/sys/block/"$2"/queue/scheduler
  grep -q "\[$1\]" /sys/block/"$2"/queue/scheduler || { failed "$1 cannot be chosen on $2"; return 1; }
}
state() { cat /sys/block/"$1"/queue/iosched/state; }
alive() { case $(state "$2") in alive*) ok "$1 ($(state "$2"))" ;; *) failed "$1: $(state "$2")" ;; esac; }
verify() { # WHAT DEVICE [MORE...]
  local what=$1 device=$2; shift 2
  must "$what" timeout -s KILL 300 fio --name=v --filename=/dev/"$device" --rw=randwrite --bs=4k-64k --size=8m \
    --ioengine=libaio --direct=1 --iodepth=32 --verify=crc32c --do_verify=1 --verify_fatal=1 "$@"
}
load() { # DEVICE SECONDS [MORE...]: in the background
  local device=$1 seconds=$2; shift 2
  fio --name=l --filename=/dev/"$device" --rw=randrw --bs=4k --ioengine=libaio --direct=1 --iodepth=16 --numjobs=2 \
    --runtime="$seconds" --time_based --group_reporting "$@" >/tmp/load 2>&1 &
  loading=$!
}
loaded() { if wait $loading; then ok "$1"; else failed "$1: fio $(tail -3 /tmp/load | tr '\n' ' ')"; fi; }

uname -r
for name in $(cat /modules/order); do
  case $name,$only in
    # For figures of cost: what completes at once and keeps nothing.
    null_blk,cost) with="queue_mode=2 irqmode=0 gb=1 bs=4096 nr_devices=1 submit_queues=1 hw_queue_depth=64" ;;
    null_blk,*) with="queue_mode=2 irqmode=2 completion_nsec=20000 gb=1 bs=512 nr_devices=1 submit_queues=2 hw_queue_depth=64 memory_backed=1 discard=1" ;;
    # So few tags that requests wait with the scheduler.
    nvme,*) with="io_queue_depth=3" ;;
    scsi_debug,*) with="dev_size_mb=64 delay=1 max_queue=8 add_host=1 lbpu=1" ;;
    *) with= ;;
  esac
  insmod /modules/"$name".ko $with || echo "insmod $name: $?"
done
mount -t configfs config /sys/kernel/config 2>/dev/null
must "the module loads" insmod /hoistway.ko
kernels="none mq-deadline kyber bfq"
ours=
for name in $(tr -d '[]' </sys/block/nullb0/queue/scheduler); do
  [[ " $kernels " = *" $name "* ]] || ours="$ours $name"
done
report "figure schedulers $(echo $ours | wc -w):$ours"

# Where a nanosecond is an instruction (qemu -icount): what a random read costs, everything included. What it takes to begin and to
# end is in both runs. By fio's clock: the shell's has in it for how long fio sleeps until it looks for its end, in steps of 10 ms.
reads() { # DEPTH READS: milliseconds
  fio --name=r --filename=/dev/nullb0 --rw=randread --randseed=7 --norandommap --bs=4k --ioengine=libaio --direct=1 --gtod_reduce=1 \
    --iodepth="$1" --iodepth_batch="$1" --iodepth_batch_complete="$1" --number_ios="$2" --cpus_allowed=0 \
    --output-format=terse --terse-version=3 2>/dev/null | cut -d';' -f9
}
if [ "$only" = cost ]; then
  part=cost
  costs=$(sed -n 's/.*hoistway_cost=\([^ ]*\).*/\1/p' /proc/cmdline)
  declare -A cost
  for name in ${costs//,/ }; do
    choose "$name" nullb0 || continue
    for depth in 1 16; do
      reads $depth 2000 >/dev/null
      few=$(reads $depth 2000)
      # Of so many that a millisecond is 17 instructions of each.
      many=$(reads $depth 62000)
      [ "$many" -gt "$few" ] || { failed "$name, depth $depth: '$few' ms, then '$many' ms"; continue; }
      cost[$name,$depth]=$(((many - few) * 1000 / 60))
      report "figure $name, depth $depth: ${cost[$name,$depth]} instructions per I/O"
      own=${cost[${name#h-},$depth]:-}
      [ "$name" = "${name#h-}" ] || [ -z "$own" ] || report "figure $name above the kernel's own, depth $depth: $((cost[$name,$depth] - own))"
    done
  done
  only=none
fi

if wanted each; then
  for name in $ours; do
    choose "$name" nullb0 || continue
    verify "$name: verify" nullb0
    before=$(memory allocs)
    fio --name=s --filename=/dev/nullb0 --rw=randrw --bs=4k --size=64m --io_size=16m --ioengine=libaio --direct=1 --iodepth=32 >/dev/null 2>&1
    middle=$(memory allocs)
    fio --name=s --filename=/dev/nullb0 --rw=randrw --bs=4k --size=64m --io_size=16m --ioengine=libaio --direct=1 --iodepth=32 >/dev/null 2>&1
    report "figure $name: allocations in 4,096 I/Os of a process: $((middle - before)), then $(($(memory allocs) - middle))"
    alive "$name" nullb0
  done
fi

if wanted ext4; then
  mkdir -p /sys/fs/cgroup/a
  echo +io >/sys/fs/cgroup/a/cgroup.subtree_control
  mkdir -p /sys/fs/cgroup/a/b
  for name in $ours; do
    choose "$name" sda || continue
    mkfs.ext4 -q -F /dev/sda && mount -t ext4 -o discard /dev/sda /mnt || { failed "$name: ext4"; continue; }
    (
      echo 0 >/sys/fs/cgroup/a/b/cgroup.procs
      for i in 1 2 3 4; do dd if=/dev/urandom of=/mnt/f$i bs=64k count=16 conv=fsync 2>/dev/null; done
      cat /mnt/f? | md5sum >/tmp/sum
    )
    sync
    fstrim /mnt 2>/dev/null
    umount /mnt
    mount -t ext4 /dev/sda /mnt
    same "$name: files" "$(cat /tmp/sum)" "$(cat /mnt/f? | md5sum)"
    umount /mnt
    alive "$name" sda
  done
fi

# A drive that takes many ranges in one discard: four partitions side by side are discarded beside a reader, who holds the tags.
if wanted discards && [ -b /dev/nvme0n1 ]; then
  for at in 8 9 a b; do
    # Type 83, from sector 0x800, 0x900, 0xa00 and 0xb00 on, 256 sectors.
    printf "\\0\\0\\0\\0\\x83\\0\\0\\0\\0\\x0$at\\0\\0\\0\\1\\0\\0"
  done | dd of=/dev/nvme0n1 bs=2 seek=223 conv=notrunc,fsync 2>/dev/null
  printf '\x55\xaa' | dd of=/dev/nvme0n1 bs=2 seek=255 conv=notrunc,fsync 2>/dev/null
  must "partitions" busybox blockdev --rereadpt /dev/nvme0n1
  joined() { awk '{print $13}' /sys/block/nvme0n1/stat; }
  before=$(joined)
  for name in h-mq-deadline h-kyber paternoster; do
    choose "$name" nvme0n1 || continue
    echo 64 >/sys/block/nvme0n1/queue/nr_requests
    load nvme0n1 4 --rw=randread --offset=64m --iodepth=4
    fio --rw=trim --bs=128k --size=128k --runtime=3 --time_based --name=a --filename=/dev/nvme0n1p1 --name=b --filename=/dev/nvme0n1p2 \
      --name=c --filename=/dev/nvme0n1p3 --name=d --filename=/dev/nvme0n1p4 >/tmp/trim 2>&1 && ok "$name: discards" ||
      failed "$name: discards: $(grep -m1 error /tmp/trim)"
    loaded "$name: reads beside discards"
    alive "$name" nvme0n1
  done
  [ "$(joined)" -gt "$before" ] && ok "$(($(joined) - before)) discards joined others" || failed "no discard joined another"
fi

if wanted switches; then
  load nullb0 25
  n=0
  while kill -0 $loading 2>/dev/null; do
    for name in $ours $kernels; do
      kill -0 $loading 2>/dev/null || break
      choose "$name" nullb0
      n=$((n + 1))
    done
  done
  loaded "$n switches under load"
fi

if wanted requests; then
  for name in h-mq-deadline paternoster h-bfq; do
    choose "$name" nullb0 || continue
    load nullb0 4 --iodepth=64
    for n in 4 300 16 128; do
      sleep 1
      echo $n >/sys/block/nullb0/queue/nr_requests
    done
    loaded "$name: nr_requests 4, 300, 16, 128 under load"
    alive "$name" nullb0
  done
fi

if wanted processes; then
  choose h-bfq nullb0
  for i in $(seq 1 150); do dd if=/dev/nullb0 of=/dev/null bs=4k count=2 iflag=direct skip="$i" 2>/dev/null; done
  alive "150 processes, whose numbers are used again" nullb0
  [ "$(state nullb0 | sed 's/.* of \([0-9]*\),.*/\1/')" -lt 60 ] && ok "their numbers" || failed "their numbers: $(state nullb0)"
fi

if wanted groups; then
  for name in h-bfq paternoster cfq; do
    choose "$name" nullb0 || continue
    for i in 1 2 3 4; do
      mkdir -p /sys/fs/cgroup/g$i
      echo $((i * 100)) >/sys/fs/cgroup/g$i/io.hoistway.weight
      (echo 0 >/sys/fs/cgroup/g$i/cgroup.procs
        exec fio --name=g --filename=/dev/nullb0 --rw=randread --bs=4k --ioengine=libaio --direct=1 --iodepth=16 --runtime=2 --time_based >/tmp/g$i 2>&1) &
    done
    sleep 1
    echo 500 >/sys/fs/cgroup/g1/io.hoistway.weight
    wait
    same "$name: weight" 500 "$(cat /sys/fs/cgroup/g1/io.hoistway.weight)"
    for i in 1 2 3 4; do rmdir /sys/fs/cgroup/g$i || failed "$name: rmdir g$i"; done
    sleep 0.5
    verify "$name: after the groups went" nullb0
    alive "$name" nullb0
  done
fi

# A random reader beside two greedy ones on sda, under a SCHEDULER, with a TARGET of its group -> the I/Os of the greedy groups, of
# weights 300 and 100, in heavy and light, and in share those of the reader, of 1000.
beside() {
  local group lone depth
  for group in lone heavy light; do mkdir -p /sys/fs/cgroup/$group; done
  echo 300 >/sys/fs/cgroup/heavy/io.hoistway.weight
  choose "$1" sda
  [ -z "$2" ] || echo "$(cat /sys/block/sda/dev) target=$2" >/sys/fs/cgroup/lone/io.hoistway.latency
  for group in heavy light lone; do
    depth=32
    [ $group != lone ] || depth=1
    (echo 0 >/sys/fs/cgroup/$group/cgroup.procs
      exec fio --name=r --filename=/dev/sda --rw=randread --bs=4k --ioengine=libaio --direct=1 --iodepth=$depth --ramp_time=8 \
        --runtime=15 --time_based --output-format=terse --terse-version=3 >/tmp/$group 2>/dev/null) &
  done
  wait
  # KiB read.
  for group in lone heavy light; do printf -v $group %d $(($(cut -d';' -f6 /tmp/$group) / 4)); done
  share=$((1000 * lone / (lone + heavy + light + 1)))
  for group in lone heavy light; do rmdir /sys/fs/cgroup/$group || failed "rmdir $group"; done
  report "figure $1, target=${2:-none}: I/Os of the reader $lone; of greedy groups of weights 300 and 100: $heavy and $light"
}

if wanted targets; then
  slow=$(cat /sys/block/vda/dev)
  file=/sys/fs/cgroup/t/io.hoistway.latency
  mkdir -p /sys/fs/cgroup/t
  choose h-bfq vda
  (echo "$slow target=auto" >$file) 2>/dev/null && failed "bfq takes a target" || ok "bfq refuses a target"
  choose paternoster vda
  for line in "$slow" "$slow target" "$slow target=" "$slow target=1.5" "$slow target=-1" "$slow other=1" "$slow target=auto x" \
    "999:0 target=auto" "target=auto" "$slow target=99999999999999999999"; do
    (echo "$line" >$file) 2>/dev/null && failed "'$line' is taken"
  done
  said=$({ echo "$slow target=x" >$file; } 2>&1)
  case $said in *"Invalid argument"*) ok "EINVAL" ;; *) failed "an error of another kind: $said" ;; esac
  same "nothing of what was refused" "" "$(cat $file)"
  echo "$slow target=1500" >$file
  same "a number" "$slow target=1500" "$(cat $file)"
  echo "$slow target=auto" >$file
  same "auto" "$slow target=auto" "$(cat $file)"
  echo "$slow target=0" >$file
  same "none again" "" "$(cat $file)"
  echo "$slow target=auto" >$file
  choose none vda
  same "it goes with the scheduler" "" "$(cat $file)"
  choose paternoster vda
  same "and does not come back" "" "$(cat $file)"
  echo "$slow target=auto" >$file
  must "it goes with the group" rmdir /sys/fs/cgroup/t
  alive "targets" vda
  # Counts of a drive in the guest, one request after the other in 25 ms each: not by the host's clock, by which a drive of qemu's
  # goes. So slow that a greedy group has a request waiting where an emulated processor waits for its turn for 0.2 s. In the order of
  # arrival the reader has one tag in 16; a target without a number has it served at least by its share, one in five.
  deep=$(cat /sys/block/sda/device/queue_depth)
  echo 1 >/sys/block/sda/device/queue_depth
  echo 25000000 >/sys/bus/pseudo/drivers/scsi_debug/ndelay
  beside noop ""
  before=$share
  beside paternoster auto
  [ $share -ge $((2 * before)) ] && ok "a target: twice the part of the drive at least" || failed "a target: of 1000 I/Os $share, without $before"
  [ $((2 * heavy)) -ge $((3 * light)) ] && ok "weights beside a target: half as much again at least" || failed "weights beside a target: $heavy, $light"
  alive "targets kept" sda
  echo "$deep" >/sys/block/sda/device/queue_depth
  echo 1 >/sys/bus/pseudo/drivers/scsi_debug/delay
fi

if wanted tunables; then
  choose h-mq-deadline nullb0
  cd /sys/block/nullb0/queue/iosched
  echo 7 >fifo_batch
  (echo 99999999999 >fifo_batch) 2>/dev/null && failed "a value out of range is taken" || ok "a value out of range is refused"
  same "fifo_batch" 7 "$(cat fifo_batch)"
  cd /tmp
fi

# Largest requests: of the scheduler, and of the administrator while that one's are in force.
if wanted cuts; then
  limit=/sys/block/sda/queue/max_sectors_kb
  before=$(cat $limit)
  # Since 6.11 a work writes the limit.
  soon() {
    for i in $(seq 1 100); do [ "$(cat $limit)" = "$2" ] && break; sleep 0.05; done
    same "$1" "$2" "$(cat $limit)"
  }
  choose paternoster sda
  own=/sys/block/sda/queue/iosched
  echo flash >$own/media
  echo 64 >$own/cut
  verify "requests of 64 KiB" sda
  soon "the scheduler's cut" 64
  echo 32 >$limit
  echo 128 >$own/cut
  verify "requests of 32 KiB" sda
  soon "the administrator's limit below it" 32
  echo 16 >$own/cut
  verify "requests of 16 KiB" sda
  soon "a cut below that" 16
  echo 128 >$own/cut
  verify "requests of 32 KiB again" sda
  soon "the administrator's limit holds for later cuts" 32
  echo 1 >$own/cut
  verify "a cut below what a kernel takes" sda
  choose none sda
  soon "the administrator's limit stays" 32
  echo "$before" >$limit
  choose paternoster sda
  echo flash >$own/media
  echo 64 >$own/cut
  verify "requests of 64 KiB again" sda
  soon "the cut again" 64
  choose none sda
  soon "what it was before" "$before"
fi

if wanted wbt; then
  for name in bfq h-bfq; do
    choose none sda
    before=$(cat /sys/block/sda/queue/wbt_lat_usec)
    choose "$name" sda
    under=$(cat /sys/block/sda/queue/wbt_lat_usec)
    choose none sda
    report "figure wbt_lat_usec $before, under $name $under, after it $(cat /sys/block/sda/queue/wbt_lat_usec)"
    [ "$name" = h-bfq ] || theirs="$before $under"
  done
  same "write-back throttling as under the kernel's bfq" "$theirs" "$before $under"
  same "and after it" "$before" "$(cat /sys/block/sda/queue/wbt_lat_usec)"
fi

if wanted allocations; then
  set_parameter fail_every 3
  for name in cfq h-bfq paternoster; do
    choose "$name" nullb0 || continue
    for i in $(seq 1 30); do dd if=/dev/nullb0 of=/dev/null bs=4k count=2 iflag=direct 2>/dev/null; done
    verify "$name: each third allocation from the reserve" nullb0
    alive "$name" nullb0
  done
  report "figure $(parameter memory)"
  set_parameter fail_every 0
fi

if wanted empty; then
  for name in cfq h-bfq paternoster; do
    choose "$name" nullb0 || continue
    set_parameter no_reserve 1
    set_parameter fail_every 1
    mkdir -p /sys/fs/cgroup/e
    (
      echo 0 >/sys/fs/cgroup/e/cgroup.procs
      for i in $(seq 1 80); do dd if=/dev/nullb0 of=/dev/null bs=4k count=2 iflag=direct 2>/dev/null & done
      wait
    )
    verify "$name: with an empty reserve" nullb0
    report "figure $name: $(state nullb0)"
    set_parameter fail_every 0
    set_parameter no_reserve 0
    choose none nullb0
    rmdir /sys/fs/cgroup/e
  done
fi

if wanted panic; then
  for name in $ours; do
    choose "$name" nullb0 || continue
    set_parameter panic_every 150
    verify "$name: fails in the middle" nullb0
    set_parameter panic_every 0
    case $(state nullb0) in failed*) ok "$name: says so" ;; *) failed "$name: $(state nullb0)" ;; esac
    verify "$name: once it has failed" nullb0
  done
  same "each said it once" "$(echo $ours | wc -w)" "$(dmesg | grep -c 'has failed (panicked.*panic_every')"
  choose none nullb0
  choose paternoster nullb0
  verify "chosen again it works" nullb0
  alive "chosen again" nullb0
fi

if wanted queues && [ -d /sys/kernel/config/nullb ]; then
  d=/sys/kernel/config/nullb/n1
  before=$(ls /sys/block)
  mkdir $d
  echo 2 >$d/submit_queues; echo 1 >$d/memory_backed; echo 128 >$d/size; echo 512 >$d/blocksize; echo 1 >$d/power
  device=$(ls /sys/block | grep -vxF "$before" | head -1)
  [ -n "$device" ] || failed "there is no device of $d"
  for name in paternoster h-kyber h-bfq; do
    choose "$name" "$device" || continue
    load "$device" 4
    for n in 1 2 1 2; do sleep 0.7; echo $n >$d/submit_queues; done
    loaded "$name: hardware queues 1, 2, 1, 2 under load"
    alive "$name" "$device"
  done
  echo 0 >$d/power
  rmdir $d
fi

# What `module build` leaves, for `module install`.
built() { # FILE...
  export HOISTWAY_CACHE_DIR=/tmp/cache
  mkdir -p -m 700 /tmp/cache /tmp/cache/module /tmp/cache/module/"$(uname -r)"
  cp "$@" /tmp/cache/module/"$(uname -r)"
}
# WHAT EXIT-CODE WORD...: what `hoistway module WORD...` says goes to the report and to /tmp/said.
hoistway_module() {
  local what=$1 code=$2; shift 2
  hoistway module "$@" >/tmp/said 2>&1
  same "$what: exit code" "$code" $?
  sed 's/^/  /' /tmp/said >&3
}
says() { grep -q -- "$2" /tmp/said && ok "$1" || failed "$1: $(cat /tmp/said)"; }

# The module of one scheduler and that of all: one at a time, each by the same commands.
if wanted one && [ -x /usr/sbin/hoistway ] && [ -e /hoistway-paternoster.ko ]; then
  for queue in /sys/block/*/queue/scheduler; do echo none >"$queue"; done
  must "rmmod" rmmod "$(basename /sys/module/hoistway*)"
  built /hoistway.ko /hoistway-paternoster.ko
  hoistway_module "the one" 0 install --only paternoster
  same "what it offers" "none paternoster" "$(tr -d '[]' </sys/block/nullb0/queue/scheduler | tr ' ' '\n' | grep -vxE 'mq-deadline|kyber|bfq' | xargs)"
  hoistway_module "list" 0 list
  says "built both, loaded one" 'built hoistway-paternoster hoistway, installed hoistway-paternoster, loaded hoistway-paternoster'
  hoistway_module "the one again" 0 install --only paternoster
  hoistway_module "all beside the one" 2 install
  says "why" 'hoistway-paternoster is loaded, and has the same files of groups'
  choose paternoster nullb0
  verify "the one" nullb0
  alive "the one" nullb0
  hoistway_module "remove in use" 2 remove
  says "how it is freed" 'echo none > /sys/block/nullb0/queue/scheduler'
  choose none nullb0
  must "rmmod of the one" rmmod hoistway_paternoster
  must "it answers to hoistway" modprobe hoistway
  hoistway_module "the one goes" 0 remove
  refused "it is gone" modprobe hoistway
  hoistway_module "all" 0 install
  # A file that is not the one that runs: modprobe would leave what is there.
  { cat /hoistway.ko; echo; } | sed 's/GNU/GNX/g' >/tmp/cache/module/"$(uname -r)"/hoistway.ko
  hoistway_module "another build" 2 install
  says "why another" 'hoistway is loaded, and is of another build'
  hoistway_module "all go" 0 remove
  must "the module loads again" insmod /hoistway.ko
fi

# What the guide shows: the module that was built is put in place, and bench finds it.
if wanted bench && [ -x /usr/sbin/hoistway ]; then
  for queue in /sys/block/*/queue/scheduler; do echo none >"$queue"; done
  must "rmmod" rmmod "$(basename /sys/module/hoistway*)"
  built /hoistway.ko
  hoistway_module "module install" 0 install
  hoistway bench /dev/vda --yes-destroy-data /dev/vda --time 4min --rounds 1 --quiet --out /tmp/bench >/tmp/table 2>/tmp/said
  # Fewer than three rounds are no answer.
  same "exit code of bench" 1 $?
  cat /tmp/said /tmp/table >&3
  grep -q '^what .* paternoster' /tmp/table && ok "the table has paternoster" || failed "the table has no paternoster"
  hoistway_module "module remove" 0 remove
  refused "it is gone" modprobe hoistway
  must "the module loads again" insmod /hoistway.ko
fi

if wanted unplug; then
  choose paternoster sda
  load sda 20 --numjobs=1 --continue_on_error=all
  sleep 2
  echo 1 >/sys/block/sda/device/delete
  wait $loading
  [ ! -e /sys/block/sda ] && ok "the disk goes under load" || failed "the disk is still there"
fi

part=end
for queue in /sys/block/*/queue/scheduler; do echo none >"$queue"; done
must "the module goes" rmmod "$(basename /sys/module/hoistway*)"
last=$(dmesg | grep 'hoistway: allocs' | tail -1)
report "figure ${last#*hoistway: }"
set -- ${last#*hoistway: }
same "allocations are given back" "$2" "$4"
warnings=$(dmesg | grep -E 'WARNING|BUG|Oops|general protection|hung_task|blocked for more|kmem_cache.*Objects remaining|lockdep|UBSAN|KASAN')
[ -z "$warnings" ] && ok "the kernel's log has no warning" || failed "the log: $warnings"
[ -z "$warnings" ] || dmesg | grep -E -A40 'WARNING|BUG|Oops' | head -200
[ $failures -eq 0 ] && report "verdict: ok" || report "verdict: $failures failures"
sync
poweroff -f
