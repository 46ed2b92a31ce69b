#!/bin/sh
# Sets worker_processes to the processors that the container may use, with NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE.
set -e

[ -n "${NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE:-}" ] || exit 0
say() { [ -n "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ] || echo "${0##*/}: $*"; }
file=/etc/nginx/nginx.conf

if ! touch "$file" 2>/dev/null; then
    say "$file cannot be changed" >&2
    exit 0
fi
# Those that the scheduler allows: the cpuset of a group counts here.
count=$(nproc)
quota='' period=''
if [ -r /sys/fs/cgroup/cpu.max ]; then
    read -r quota period </sys/fs/cgroup/cpu.max
elif [ -r /sys/fs/cgroup/cpu/cpu.cfs_quota_us ]; then
    quota=$(cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us) period=$(cat /sys/fs/cgroup/cpu/cpu.cfs_period_us)
fi
case $quota in
    '' | max | -*) ;;
    *)
        limit=$(((quota + period - 1) / period))
        if [ "$limit" -lt "$count" ]; then count=$limit; fi
        ;;
esac
# A mounted file cannot be replaced.
if sed -i -E "s/^( *worker_processes +)[^;]+;/\1$count;/" "$file"; then
    say "worker_processes $count"
else
    say "$file cannot be changed" >&2
fi
