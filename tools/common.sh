# Helpers that the scripts of this directory source.

# Parallel jobs: the CPUs this process may use, at most one per 1.5 GiB of available memory.
job_count() {
  local cpus memory
  cpus=$(nproc)
  memory=$(awk '/^MemAvailable:/ {print int($2 / 1572864)}' /proc/meminfo 2>/dev/null || echo "$cpus")
  [ "${memory:-0}" -ge 1 ] || memory=1
  echo $((cpus < memory ? cpus : memory))
}
