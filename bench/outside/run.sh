#!/bin/bash
# run.sh CLONE [RATE [FACTOR [PART…]]]: see README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
clone=$(cd "$1" && pwd) rate=${2:-500} factor=${3:-3}
parts=("${@:4}")
if [ ${#parts[@]} = 0 ]; then parts=(load depth kill kills postgres); fi

# Words with a = are phases: NAME=TYPE:TIME.
declare -A part=(
  [short]="--producer-rate $rate warmup=warmup:10s clean=clean:30s idle=idle-in-tx:30s"
  [load]="--producer-rate $rate --high-load-multiplier $factor warmup=warmup:20s clean_1=clean:45s idle=idle-in-tx:60s
    recovery_1=recovery:45s readers=active-readers:60s clean_2=clean:30s pressure=high-load:60s recovery_2=recovery:45s"
  [depth]="--producer-mode depth-target --target-depth 2000 warmup=warmup:15s clean=clean:40s idle=idle-in-tx:60s
    readers=active-readers:45s recovery=recovery:40s"
  [kill]="--producer-rate $((rate / 2)) --worker-count 16 --replicas 2 warmup=warmup:20s baseline=clean:40s
    kill=kill-worker(instance=0):40s restart=start-worker(instance=0):40s recovery=clean:60s"
  [kills]="--producer-rate $rate warmup=warmup:20s baseline=clean:30s kills=repeated-kill(instance=0,period=20s):60s recovery=clean:45s"
  [postgres]="--producer-rate $rate warmup=warmup:20s baseline=clean:30s restart=postgres-restart:30s recovery_1=clean:30s
    backends=pg-backend-kill(rate=2):30s recovery_2=clean:30s"
)
# What the database holds at the end and the queue does not take for done.
declare -A left=(
  [onceway]="select 'L ' || key_text || ' ' || state from onceway.messages where state <> 'delivered'"
  [pgboss]="select 'L ' || (data ->> 'key') || ' ' || state::text from pgboss.job where state <> 'completed' and data ? 'key'"
)
for each in "${parts[@]}"; do [ -n "${part[$each]:-}" ] || { echo "no part $each: there are ${!part[*]}" >&2; exit 2; }; done

export ONCEWAY_DIR; ONCEWAY_DIR=$(cd "$here/../.." && pwd)
export PATH=$here:$ONCEWAY_DIR/node_modules/.bin:$PATH
cd "$clone"
git apply --reverse --check "$here/harness.patch" 2>/dev/null || git apply "$here/harness.patch"
if [ ! -d .venv ]; then python3 -m venv .venv; fi
.venv/bin/pip install --quiet --disable-pip-version-check 'psycopg[binary]' matplotlib pandas numpy pydantic
if [ ! -d pgboss-bench/node_modules ]; then npm ci --silent --prefix pgboss-bench; fi

export PG_DIRECTORY PG_PORT; PG_DIRECTORY=$(mktemp -d)
trap 'docker compose down; rm -rf "$PG_DIRECTORY"' EXIT
PG_PORT=$(node --input-type=module -e "import { freePort } from '$ONCEWAY_DIR/test/harness/ports.ts'; console.log(await freePort())")
# The database outlives the harness, for the judgement. The adapters keep the rate themselves, because the harness's pacer knows no high load.
export KEEP_DB=1 PRODUCER_PACING=adapter

runs=()
for each in "${parts[@]}"; do
  options=()
  for word in ${part[$each]}; do if [[ $word == *=* ]]; then options+=(--phase "$word"); else options+=("$word"); fi; done
  for system in onceway pgboss; do
    export LEDGER_DIR=$clone/ledgers/$each-$system
    rm -rf "$LEDGER_DIR"; mkdir -p "$LEDGER_DIR"; runs+=("$LEDGER_DIR")
    # By default readers scan the first table that an adapter names. Of pg-boss that is not the one with the jobs.
    unset ACTIVE_READER_SQL; if [ $system = pgboss ]; then export ACTIVE_READER_SQL='SELECT count(*) FROM pgboss.job'; fi
    echo "$(date +%T) $each $system"
    .venv/bin/python bench.py run --systems $system "${options[@]}" >"$LEDGER_DIR/harness.log" 2>&1 || echo "the harness gave up: $LEDGER_DIR/harness.log"
    results=$(sed -n 's/.*results at: //p' "$LEDGER_DIR/harness.log")
    if [ -n "$results" ]; then cp "$results/summary.json" "$LEDGER_DIR"; fi
    docker compose up
    docker compose exec -T postgres psql -U bench -d ${system}_bench -Atc "${left[$system]}" >"$LEDGER_DIR/left.ledger"
    docker compose down
  done
done
node "$here/report.ts" "${runs[@]}"
