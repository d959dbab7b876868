#!/usr/bin/env bash
# Interrupts measurements under the kernel's schedulers N times (default 100), at random times by random signals: INT, TERM, HUP, or KILL
# followed by `hoistway restore` (sometimes killed too, and run again). Before and after each, all that hoistway may change is compared: the
# files of the devices' queues and their driver's tags, cgroups, mounts, loop devices, files, processes. docs/reference/restore.md.
#
#     tests/interrupt.sh [N] [SEED]
#
# Needs root, loop devices and mkfs.ext4; without them it says so and ends with 3. Works on two loop devices of its own. HOISTWAY names the
# program (default: target/release/hoistway); ROUND_MS the longest time until a signal.
set -u
n=${1:-100} seed=${2:-1} longest=${ROUND_MS:-6000}
here=$(cd "$(dirname "$0")/.." && pwd)
hoistway=${HOISTWAY:-$here/target/release/hoistway}
lacks() { echo "skipped: $*"; exit 3; }
[ "$(id -u)" = 0 ] || lacks "needs root"
[ -x "$hoistway" ] || lacks "$hoistway is not there; cargo build --release"
for tool in losetup mkfs.ext4 mount; do command -v $tool >/dev/null || lacks "$tool is not installed"; done
env --default-signal true 2>/dev/null || lacks "env --default-signal needs coreutils 8.31"

scratch=$(mktemp -d /tmp/hoistway-interrupt.XXXXXX)
export HOISTWAY_STATE_DIR=$scratch/state HOISTWAY_INTERRUPTED=$scratch
a='' b='' failed=0
clean() {
    mountpoint -q "$scratch/mnt" && umount "$scratch/mnt"
    [ -n "$a" ] && losetup -d "$a"
    [ -n "$b" ] && losetup -d "$b"
    [ $failed = 0 ] && rm -rf "$scratch" || echo "kept: $scratch"
}
trap clean EXIT
mkdir "$scratch/mnt" "$scratch/out"
truncate -s 2G "$scratch/a" "$scratch/b"
a=$(losetup -f --show "$scratch/a") || lacks "no loop device to be had"
b=$(losetup -f --show "$scratch/b") || lacks "no loop device to be had"
mkfs.ext4 -q "$b" && mount -o discard "$b" "$scratch/mnt" || lacks "no file system on a loop device"
# A machine that somebody has set up by hand.
for queue in /sys/block/${a#/dev/}/queue /sys/block/${b#/dev/}/queue; do
    echo mq-deadline >$queue/scheduler; echo 5 >$queue/iosched/fifo_batch; echo 192 >$queue/nr_requests; echo 96 >$queue/read_ahead_kb
done

cat >"$scratch/small.toml" <<'TOML'
schema = 1
title = "Small"
about = "To be interrupted."
drives = ["plextor-px-256m5s"]
configs = ["none", "mq-deadline", "kyber", "bfq{slice_idle=0}", "prop-bfq", "max-none"]
workloads = ["writers", "readers"]
reps = 2

[host]
profile = "today"

[window]
head_start = "100ms"
ramp = "0s"
measured = "300ms"
grace = "20s"
target_interval = "100ms"
device_interval = "100ms"

[target]
load = "reader"
pattern = "rand"
size = "2 MiB"

[workload.readers]
summary = "three readers"

[[workload.readers.procs]]
name = "reader"
count = 3
load = "reader"
size = "2 MiB"

[workload.writers]
summary = "three writers"

[[workload.writers.procs]]
name = "writer"
count = 3
load = "writer"
size = "2 MiB"
dsync = 2
TOML

# All that may be changed, as text. Cgroups of other programs, and of those of this name that are alive, are left out.
snapshot() {
    for device in "$a" "$b"; do
        (cd "/sys/block/${device#/dev/}" && find queue mq -type f | sort | while read -r file; do
            printf '%s %s: %s\n' "$device" "$file" "$(cat "$file" 2>/dev/null)"
        done)
        tags=/sys/kernel/debug/block/${device#/dev/}/hctx0/tags
        [ -r "$tags" ] && printf '%s tags: %s\n' "$device" "$(grep -m1 depth= "$tags")"
    done
    find /sys/fs/cgroup -mindepth 1 -type d 2>/dev/null | sort | while read -r group; do
        pid=$(sed -n 's|.*/hoistway-\(look-\)\?\([0-9]*\).*|\2|p' <<<"$group")
        # What other programs make comes and goes.
        [ -z "$pid" ] || [ -d "/proc/$pid" ] && continue
        echo "cgroup $group"
    done
    find /sys/fs/cgroup -maxdepth 2 -name cgroup.subtree_control | sort | while read -r file; do echo "$file: $(cat "$file")"; done
    grep -F "$scratch" /proc/self/mountinfo | cut -d' ' -f3- | sort
    losetup -l -n -O NAME,BACK-FILE | grep -F "$scratch" | tr -s ' ' | sort
    (cd "$scratch" && find mnt a b -printf 'file %p %y\n' | sort)
    ls "$HOISTWAY_STATE_DIR" 2>/dev/null | sed 's/^/state /'
    processes
}

# Processes of ours: their environment says so.
processes() {
    for folder in /proc/[0-9]*; do
        pid=${folder#/proc/}
        [ "$pid" = $$ ] || [ "$(readlink "$folder/exe" 2>/dev/null)" != "$(readlink -f "$hoistway")" ] && continue
        grep -qzF "HOISTWAY_INTERRUPTED=$scratch" "$folder/environ" 2>/dev/null && echo "process $pid $(tr '\0' ' ' <"$folder/cmdline")"
    done
}

RANDOM=$seed
declare -A counts
echo "$n interruptions, seed $seed, $a and $b"
for ((i = 1; i <= n; i++)); do
    case $((RANDOM % ${KINDS:-3})) in
        0) what=(compare "$scratch/small.toml" --on kernel --device "$a" --yes-destroy-data "$a" --fresh --out "$scratch/out/device") ;;
        1) what=(compare "$scratch/small.toml" --on kernel --target-dir "$scratch/mnt" --size 400MB --fresh --out "$scratch/out/dir") ;;
        2) what=(bench "$scratch/mnt" --quick --fresh --out "$scratch/out/bench") ;;
    esac
    signals=(INT TERM HUP KILL)
    signal=${signals[RANDOM % 4]}
    ms=$(((RANDOM * 32768 + RANDOM) % longest))
    snapshot >"$scratch/before"
    # A background job of a shell ignores INT, and one under nohup HUP, until it has a handler of its own.
    env --default-signal "$hoistway" "${what[@]}" >"$scratch/log" 2>&1 &
    pid=$!
    sleep "$((ms / 1000)).$(printf %03d $((ms % 1000)))"
    kill -$signal $pid 2>/dev/null
    stuck=0
    # Without bash's own words on a job that was killed.
    {
        for ((t = 0; t < 600; t++)); do kill -0 $pid || break; sleep 0.05; done
        kill -0 $pid && { stuck=1; kill -9 $pid; }
        wait $pid; code=$?
    } 2>/dev/null
    [ $stuck = 0 ] || { echo "FAILED $i: ${what[*]}: $signal after $ms ms: still there after 30 s"; failed=1; }
    if [ $signal = KILL ]; then
        if [ $((RANDOM % 4)) = 0 ]; then
            "$hoistway" restore >/dev/null 2>&1 & restore=$!
            sleep "0.0$(printf %02d $((RANDOM % 30)))"; kill -9 $restore 2>/dev/null; { wait $restore; } 2>/dev/null
        fi
        "$hoistway" restore >"$scratch/restored" 2>&1 || { echo "FAILED $i: restore:"; cat "$scratch/restored"; failed=1; }
    fi
    snapshot >"$scratch/after"
    if ! diff "$scratch/before" "$scratch/after" >"$scratch/difference"; then
        echo "FAILED $i: ${what[*]}: $signal after $ms ms (exit code $code):"; cat "$scratch/difference"; tail -3 "$scratch/log"
        failed=1
        break
    fi
    case $signal,$code in
        # Before the program has its handler, a signal ends it as any other; nothing is changed by then.
        KILL,137 | *,130 | TERM,143 | HUP,129 | *,0) ;;
        *) echo "FAILED $i: ${what[*]}: $signal after $ms ms: exit code $code"; tail -3 "$scratch/log"; failed=1 ;;
    esac
    [ $failed = 0 ] || break
    kind="${what[0]} ${what[2]} $signal"; [ "${what[0]}" = compare ] && kind="compare ${what[4]} $signal"
    [ $code = 0 ] && kind="${what[0]}: over before the signal"
    counts[$kind]=$((${counts[$kind]:-0} + 1))
done
for kind in "${!counts[@]}"; do echo "  ${counts[$kind]} $kind"; done | sort -k2
[ $failed = 0 ] && echo "$n of $n left everything as it was"
exit $failed
