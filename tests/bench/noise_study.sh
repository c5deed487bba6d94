#!/usr/bin/env bash
# The baseline against itself: the 95% interval must contain 1 in at least 95% of the runs, and none may score. Prints a line a record.
# Usage: tests/bench/noise_study.sh FAIBENCH [ROUNDS] [WORKLOAD] [BUDGET]     (5 rounds over eight tasks: 40 runs)
set -euo pipefail
faibench=$1 rounds=${2:-5} workload=${3:-standard} budget=${4:-3}
folder=$(mktemp -d)
for ((round = 1; round <= rounds; ++round)); do
  "$faibench" run --variant baseline --workload "$workload" --budget "$budget" --seed "$round" --quiet --out "$folder/$round.h5" >/dev/null || true
done
/usr/bin/env python3 - "$folder" <<'PY'
import json, pathlib, sys
runs = contained = scored = 0
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if "format" in record or record["variant"] != "baseline":
            continue
        inside = record["speedup_low"] <= 1 <= record["speedup_high"]
        runs += 1
        contained += inside
        scored += record["performance"] and record["score"] > 0
        print(f"{record['seed']:>3} {record['task']:<30} {record['verdict']:<8} {record['speedup_low']:.4f} {record['speedup']:.4f} {record['speedup_high']:.4f} {'' if inside else 'MISSES 1'}")
print(f"{contained} of {runs} intervals contain 1; {scored} score above 0")
sys.exit(0 if runs and contained >= 0.95 * runs and scored == 0 else 1)
PY
