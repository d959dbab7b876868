#!/bin/sh
# The suite runs this in the test's folder, which is also HOME, beside the archive that downloads.xml names. The program
# that it leaves is called `hoistway` like the test: SCHEDULER WORKLOAD in, two lines for results-definition.xml out.
mkdir -p program
for archive in hoistway-*-linux-static.tar.xz; do
  tar -xJf "$archive" -C program --strip-components=1 || { echo 1 >"$HOME/install-exit-status"; exit 1; }
done

cat >hoistway <<'RUN'
#!/bin/sh
cd "$HOME" || exit 1
rm -rf run
./program/hoistway compare latency-2019 --on kernel --target-dir . --config "$1" --workload "$2" --reps 3 --quick \
  --fresh --quiet --csv --out run >values.csv 2>messages
status=$?
{
  cat messages
  # The rows without a repetition are the means of all.
  awk -F, '$8 != "" { next }
           $5 == "latency_avg" { print "Mean wait of the random reader: " $7 " ms" }
           $5 == "throughput_total" { print "Throughput of all processes: " $7 " MB/s" }' values.csv
} >"$LOG_FILE"
# A scheduler that this kernel lacks is left out, which is no result.
if [ "$status" = 0 ] && ! grep -q '^Mean wait' "$LOG_FILE"; then status=1; fi
echo "$status" >"$HOME/test-exit-status"
RUN
chmod +x hoistway
./program/hoistway --version
echo $? >"$HOME/install-exit-status"
