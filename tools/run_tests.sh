#!/usr/bin/env bash
# Everything that must pass, in stages; every stage runs even if one before it failed.
# Usage: tools/run_tests.sh [STAGE ...], stages: release asan tsan neon fuzz (default: all).
#   release  warnings are errors; all tests, per instruction set; lints, install, valgrind
#   asan     AddressSanitizer and UndefinedBehaviorSanitizer; tests once, on the default ISA
#   tsan     ThreadSanitizer; the rooms that run in parallel
#   neon     the rooms under attention for aarch64, run by qemu-user, with fewer shapes
#   fuzz     libFuzzer targets, FUZZ_SECONDS each (60), under the sanitizers of asan
# The last line is "N passed, N failed"; the exit status is 0 only if nothing failed.
set -uo pipefail
cd "$(dirname "$0")/.."
source tools/common.sh

jobs=$(job_count)
logs=build/logs
mkdir -p "$logs"
passed=0
failed=0
skipped=0
times=()
launcher=()

# count RESULT [NAME]: one check that is not a ctest test.
count() {
  if [ "$1" -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $2"
  fi
}

# run_ctest NAME DIR [ctest options]: adds its tests to the counts.
run_ctest() {
  local name=$1 directory=$2 log=$logs/$1.log
  shift 2
  "${launcher[@]}" ctest --test-dir "$directory" --output-on-failure -j "$jobs" --no-tests=error \
    "$@" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]} bad all off
  # "98% tests passed, 1 tests failed out of 50"; skipped tests are among the 50, not the 1.
  read -r bad all < <(sed -n 's/.* tests passed, \([0-9]*\) tests failed out of \([0-9]*\).*/\1 \2/p' "$log")
  if [ -z "${all:-}" ]; then
    count 1 "ctest of $name"
    return
  fi
  off=$(grep -cE '^[[:space:]]*[0-9]+ - .* \(Skipped\)$' "$log")
  passed=$((passed + all - bad - off))
  failed=$((failed + bad))
  skipped=$((skipped + off))
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then count 1 "ctest of $name"; fi
}

configure() {
  local log=$logs/$1-configure.log
  cmake --preset "$1" >"$log" 2>&1 || {
    cat "$log"
    return 1
  }
}

compile() {
  local directory=$1
  shift
  cmake --build "$directory" -j "$jobs" "$@"
}

stage_release() {
  configure ci && compile build
  local status=$?
  count "$status" "build of release"
  if [ "$status" -eq 0 ]; then run_ctest release build; fi
}

stage_asan() {
  export UBSAN_OPTIONS=print_stacktrace=1
  configure asan && compile build-asan
  local status=$?
  count "$status" "build of asan"
  if [ "$status" -eq 0 ]; then run_ctest asan build-asan -LE '^(isa|figures)$'; fi
}

stage_tsan() {
  configure tsan && compile build-tsan --target threaded_tests
  local status=$?
  count "$status" "build of tsan"
  [ "$status" -eq 0 ] || return
  # The sanitizer's shadow memory collides with the wide address randomisation of newer kernels.
  if setarch -R true 2>/dev/null; then launcher=(setarch -R); fi
  TSAN_OPTIONS=halt_on_error=1 run_ctest tsan build-tsan -L '^threaded$' -LE '^(isa|figures)$'
  launcher=()
}

stage_neon() {
  if [ "$(uname -m)" != x86_64 ]; then
    echo "neon: only cross-compiled on x86-64; here the other stages run on this machine's own ISAs"
    return
  fi
  local tool
  for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
    if ! command -v "$tool" >/dev/null; then
      count 1 "neon: no $tool; as root, run tools/install_deps.sh neon"
      return
    fi
  done
  tools/fetch_sysroot.sh && configure neon && compile build-neon
  local status=$?
  count "$status" "build of neon"
  if [ "$status" -eq 0 ]; then run_ctest neon build-neon -LE '^(default_isa|figures)$'; fi
}

fuzz_one() {
  local name=$1 log=build/logs/$1.log
  mkdir -p "build-fuzz/corpus/$name" "build-fuzz/artifacts"
  "build-fuzz/fuzz/$name" "build-fuzz/corpus/$name" "fuzz/corpus/${name#fuzz_}" \
    -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build-fuzz/artifacts/$name-" >"$log" 2>&1
  local status=$?
  if [ "$status" -ne 0 ]; then tail -n 40 "$log"; fi
  grep -E '^Done|stat::' "$log" | sed "s/^/$name: /"
  return "$status"
}

stage_fuzz() {
  local targets=(fuzz_safetensors fuzz_config fuzz_tokenizer fuzz_latent fuzz_prefill) name
  configure fuzz && compile build-fuzz --target "${targets[@]}"
  local status=$?
  count "$status" "build of fuzz"
  [ "$status" -eq 0 ] || return
  local running=() names=()
  for name in "${targets[@]}"; do
    fuzz_one "$name" &
    running+=($!)
    names+=("$name")
    if [ ${#running[@]} -ge "$jobs" ]; then
      wait "${running[0]}"
      count $? "${names[0]}"
      running=("${running[@]:1}")
      names=("${names[@]:1}")
    fi
  done
  for i in "${!running[@]}"; do
    wait "${running[$i]}"
    count $? "${names[$i]}"
  done
}

# isas NAME: which instruction sets the stage's tests ran on, and which this machine lacks.
isas() {
  local log=$logs/$1.log ran off
  ran=$(sed -nE 's/.* Test +#[0-9]+: [a-z_]+_test\.([a-z0-9_]+) .*(Passed|Failed|Timeout|Exception).*/\1/p' "$log" |
    sort -u | paste -sd' ')
  off=$(sed -nE 's/.* Test +#[0-9]+: [a-z_]+_test\.([a-z0-9_]+) .*Skipped.*/\1/p' "$log" |
    sort -u | paste -sd' ')
  echo "ISAs of $1: ran ${ran:-the best of this machine}; skipped, not on this machine: ${off:-none}"
}

all_stages="release asan tsan neon fuzz"
for stage in "${@:-$all_stages}"; do
  for name in $stage; do
    if ! declare -F "stage_$name" >/dev/null; then
      echo "run_tests.sh: unknown stage '$name' (${all_stages// /, })" >&2
      exit 2
    fi
    echo "=== $name"
    started=$SECONDS
    "stage_$name"
    times+=("$(printf '%-8s %5d s' "$name" $((SECONDS - started)))")
  done
done

echo "=== time per stage, $jobs jobs"
printf '%s\n' "${times[@]}"
if [ "$skipped" -gt 0 ]; then echo "$skipped skipped (listed by ctest above)"; fi
for name in asan tsan neon release; do
  if [ -f "$logs/$name.log" ] && [[ " ${*:-$all_stages} " == *" $name "* ]]; then
    echo "=== ctest summary: $name"
    sed -n '/tests passed, /,$p' "$logs/$name.log"
    isas "$name"
  fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
