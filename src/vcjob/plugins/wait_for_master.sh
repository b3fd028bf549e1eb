#!/bin/sh
# Waits until the master of a PyTorch job accepts connections.
#
# In:   VCJOB_WAIT_HOST, VCJOB_WAIT_PORT, VCJOB_WAIT_TIMEOUT (seconds); RANK=0 means: this is the master.
# Exit: 0 the master answers, 91 the timeout ended, 92 the image cannot probe a port, 93 bad settings.
#
# It runs in images that we do not control: POSIX sh, any user, and it writes no file. It is passed as the text
# of `sh -c`, so it must not contain a double dollar sign (the kubelet would halve it), and a string that spans
# lines must be a program, because comments and indentation are removed from the copy in the pod.

# The messages of the tools are parsed below, so they must be in English.
export LC_ALL=C
trap 'leave 143' TERM
trap 'leave 130' INT

cause= watcher_pid=
host=${VCJOB_WAIT_HOST:-} port=${VCJOB_WAIT_PORT:-} seconds=${VCJOB_WAIT_TIMEOUT:-}

say() { printf 'wait-for-master: %s\n' "$*"; }
fail() {
    code=$1
    shift
    say "error: $*" >&2
    exit "$code"
}
leave() {
    [ -z "$watcher_pid" ] || kill "$watcher_pid" 2>/dev/null
    exit "$1"
}

# ---- time, in hundredths of a second ----

# The uptime of the machine does not change when somebody sets the clock.
now() {
    if [ -r /proc/uptime ] && read -r up _ </proc/uptime; then
        # 1xx-100 and not xx, because the shell reads 08 as an octal number.
        now=$((${up%.*} * 100 + 1${up#*.} - 100))
    else
        now=$(($(date +%s) * 100))
    fi
}

# Sets $limit, how long a command may take: $1 tenths of a second, or less at the end of the wait ($cut).
within() {
    left=$(((deadline - now + 9) / 10)) limit=$1 cut=
    [ "$limit" -le "$left" ] || cut=1 limit=$left
    [ "$limit" -ge 1 ] || limit=1
    if [ -n "$tenths" ]; then
        limit=$((limit / 10)).$((limit % 10))
    else
        limit=$(((limit + 9) / 10))
    fi
}

# ---- one probe, never longer than its limit; sets $output and $code (the exit code) ----

probe() {
    case $method in
    'nc -z') bounded 50 "$tool" -z $verbose -w 1 "$host" "$port" ;;
    /dev/tcp*) bounded 20 "$tool" -c ': <"/dev/tcp/$0/$1"' "$host" "$port" ;;
    python3) bounded 50 "$tool" -ISc "$python" "$host" "$port" ;;
    esac
}

python='import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()'

bounded() {
    now
    within "$1"
    shift
    began=$now
    # `exit`, so that the shell does not replace itself by the tool and report how it ended.
    output=$(
        exec 2>&1 </dev/null
        if [ -n "$timeout" ]; then "$timeout" "$limit" "$@"; else watched "$@"; fi
        exit "$?"
    )
    code=$?
}

watched() {
    "$@" &
    probing=$!
    (
        sleep "$limit"
        kill "$probing"
    ) >/dev/null 2>&1 &
    watching=$!
    wait "$probing"
    code=$?
    kill "$watching" 2>/dev/null
    return "$code"
}

# Whether the tool itself does not work, independent of the network.
unusable() {
    [ "$code" -ne 0 ] || return 1
    case $code in
    124 | 137 | 143) return 1 ;;
    esac
    [ "$code" -lt 126 ] || return 0
    case $method:$output in
    nc*"nvalid option"* | nc*"nrecognized option"* | nc*"llegal option"* | nc*"nknown option"* | nc*[Uu]sage:*) return 0 ;;
    /dev*"o such file"* | /dev*onexistent* | /dev*"not found"*) return 0 ;;
    python3*"No module"*) return 0 ;;
    esac
    return 1
}

# Sets $cause, why the last probe failed.
explain() {
    by=$method
    now
    case $cut$code in
    # The end of the wait interrupted this probe, so the one before it is more informative.
    1124 | 1137 | 1143) [ -z "$cause" ] || return 0 ;;
    esac
    text=$output
    while :; do
        case $text in
        # The host name must not be mistaken for a message of the tool.
        *"$host"*) text=${text%%"$host"*}${text#*"$host"} ;;
        *) break ;;
        esac
    done
    case $text in
    *efused*) cause=refused ;;
    *"esolv"* | *"not known"* | *"nknown host"* | *"ad address"* | *"lookup failed"* | *gaierror* | *getaddrinfo* | *"name resolution"*)
        cause='the name does not resolve'
        ;;
    *"imed out"* | *TIMEOUT* | *"in progress"*) cause='no answer' ;;
    *)
        case $code in
        124 | 137 | 143) cause='no answer' ;;
        *)
            if [ -n "$text" ]; then
                newline=$(printf '\n.')
                cause=${output##*"${newline%.}"}
            elif [ $((now - began)) -ge 90 ]; then
                cause='no answer'
            else
                cause=refused
            fi
            ;;
        esac
        ;;
    esac
}

advise() {
    case $cause in
    refused) advice='its pod exists, but nothing listens: check that the training program runs and uses MASTER_PORT' ;;
    'the name'*) advice='check that the pod of the master runs and that the headless Service of the job exists' ;;
    *) advice='check that the pod of the master runs and that no network policy or firewall blocks the port' ;;
    esac
}

# ---- choose a tool that can probe a port in this image ----

# Try each tool once; keep the first one that works, whether the port is open or not.
choose() {
    timeout=timeout tenths=1
    command -v sleep >/dev/null 2>&1 || fail 92 'the image has no sleep: add coreutils or busybox, or choose another image with --wait-master-image'
    # Not every timeout, and not every sleep, supports fractions of a second.
    if ! timeout 9.9 sh -c : 2>/dev/null; then
        tenths=
        if ! timeout 9 sh -c : 2>/dev/null; then
            timeout=
            ! sleep 0.1 2>/dev/null || tenths=1
        fi
    fi
    IFS=:
    for folder in '' $PATH; do
        unset IFS
        # Some shells have a built-in nc, so the real ones are called by their path.
        tool=${folder:+$folder/}nc
        command -v "$tool" >/dev/null 2>&1 || continue
        method='nc -z'
        # The traditional netcat does reverse lookups when it is verbose.
        verbose=-v
        case $("$tool" -h 2>&1 </dev/null) in
        *'[v1.10'*) verbose= ;;
        esac
        probe
        unusable || return 0
    done
    unset IFS
    for tool in sh bash; do
        command -v "$tool" >/dev/null 2>&1 || continue
        method=/dev/tcp${timeout:+" under timeout"}
        probe
        unusable || return 0
    done
    if command -v python3 >/dev/null 2>&1; then
        tool=python3
        method=python3
        probe
        unusable || return 0
    fi
    return 1
}

# ---- between two probes ----

# A probe that finds out why it fails costs several processes. Between two probes, a watcher checks the port often
# and cheaply, and exits as soon as it is open. bash connects without starting a process; with nc each check is one
# process. Both pause by reading from a pipe that nobody writes to: their own standard input, which they also open
# for writing. Exit codes of the watcher in bash: 81 refused, 82 no such name, 83 something else.

# Arguments: host, port, seconds between two checks, number of checks.
in_bash='
    why() {
        output=$({ true <"/dev/tcp/$0/$1"; } 2>&1) && exit 0
        case ${output//"$0"/} in
        *efused*) return 81 ;;
        *" not known"* | *esol*) return 82 ;;
        *"o such file"*) exit 9 ;;
        esac
        return 83
    }
    [ "${BASH_VERSINFO:-0}" -gt 3 ] && exec 0<>/proc/self/fd/0 || exit 9
    why "$1"
    for ((checks = 0; checks < $3; checks++)); do
        read -rt "$2" _
        ! true <"/dev/tcp/$0/$1" || exit 0
    done
    why "$1"
'
by_nc='
    exec 0<>/proc/self/fd/0 || exit 9
    until "$3" -z -w 1 "$0" "$1" </dev/null; do
        read -rt "$2" _
        # The `read` of this shell has no timeout.
        [ "$?" -ne 2 ] || sleep "$2" || sleep 1
    done
'
in_python='exec("import socket, sys, time\nwhile True:\n try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close(); break\n except OSError: time.sleep(float(sys.argv[3]))")'

# Watch the port until the next report is due or the port is open; sets $code and $cause.
watch_port() {
    period=$((report - now))
    [ "$report" -le "$deadline" ] || period=$((deadline - now))
    case $method:$cause in
    python3:*) watcher=python3 ;;
    nc*:'no answer') watcher=nc ;;
    # Where packets get lost, bash would hang in one connection until it is killed.
    *:'no answer') watcher= ;;
    nc*) watcher=${bash:-nc} ;;
    *) watcher=bash ;;
    esac
    # Four checks a second for ten seconds, then fewer the longer the wait lasts, because with nc each check is a
    # process; but never fewer than one every two seconds.
    share=3 most=99
    [ "$watcher" != nc ] || share=10 most=200
    every=25 age=$((now - start))
    [ "$age" -lt 1000 ] || every=$((age * share / 100))
    [ "$every" -ge 25 ] || every=25
    [ "$every" -le "$most" ] || every=$most
    # All workers query the same name server.
    [ "$cause$every" != 'the name does not resolve25' ] || every=50
    pause=$((every / 100)).$((every / 10 % 10))$((every % 10))
    # bash counts its checks. It may be late for a report, but not for the end; starting it again costs as much as
    # ten checks.
    checks=$((period / every)) late=0
    [ "$report" -gt "$deadline" ] || checks=$((checks + 1)) late=10
    [ "$checks" -ge 1 ] || checks=1
    [ "$watcher" = bash ] || late=0
    within $(((period + 9) / 10 + late))
    case $reliable$watcher in
    1bash) run_watcher "${bash:-sh}" -c "$in_bash" "$host" "$port" "$pause" "$checks" ;;
    1nc) run_watcher sh -c "$by_nc" "$host" "$port" "$pause" "$tool" ;;
    1python3) run_watcher python3 -ISc "$in_python" "$host" "$port" "$pause" ;;
    *)
        sleep 0.3 2>/dev/null || sleep 1
        result=124
        ;;
    esac
    now
    left=$((deadline - now))
    case $result in
    0) code=0 ;;
    81) cause=refused ;;
    82) cause='the name does not resolve' ;;
    83 | 124 | 137 | 143) ;;
    # The watcher does not work in this image.
    *) reliable= ;;
    esac
    case $result in
    0 | 81 | 82)
        by=$method
        [ "$watcher$method" != 'bashnc -z' ] || by=/dev/tcp
        ;;
    *)
        # Not every timeout can end a probe within less than a second, so the last half second has no probe.
        if [ "$left" -ge 50 ]; then
            probe
            explain
        elif [ "$left" -gt 0 ]; then
            sleep 0.5 2>/dev/null || sleep 1
            now
        fi
        ;;
    esac
}

run_watcher() {
    : | ${timeout:+"$timeout" "$limit"} "$@" >/dev/null 2>&1 &
    watcher_pid=$! watching=
    if [ -z "$timeout" ]; then
        (
            sleep "$limit"
            kill "$watcher_pid"
        ) >/dev/null 2>&1 &
        watching=$!
    fi
    wait "$watcher_pid" 2>/dev/null
    result=$?
    [ -z "$watching" ] || kill "$watching" 2>/dev/null
    watcher_pid=
}

# ---- the wait ----

if [ "${RANK:-}" = 0 ]; then
    say 'this pod is the master: nothing to wait for'
    exit 0
fi
[ -n "$host" ] || fail 93 'VCJOB_WAIT_HOST is empty'
case $port in
'' | *[!0-9]*) fail 93 "VCJOB_WAIT_PORT is not a port: '$port'" ;;
esac
case $seconds in
'' | *[!0-9]* | 0) fail 93 "VCJOB_WAIT_TIMEOUT is not a number of seconds: '$seconds'" ;;
esac

now
start=$now deadline=$((now + seconds * 100)) report=$((now + 1000))
# The clock counts whole seconds: wait a second too long rather than too short.
[ -r /proc/uptime ] || deadline=$((deadline + 100))
say "waiting for $host:$port, at most $seconds s"
choose || fail 92 "the image has no tool to probe $host:$port: add nc (with -z), bash or python3, or choose another image with --wait-master-image"
bash= reliable=1
! command -v bash >/dev/null 2>&1 || bash=bash
explain
while [ "$code" -ne 0 ]; do
    if [ "$now" -ge "$deadline" ]; then
        advise
        fail 91 "$host:$port did not answer within $seconds s: $cause (by $by); $advice"
    fi
    if [ "$now" -ge "$report" ]; then
        say "still waiting after $(((now - start) / 100)) s: $cause (by $by)"
        # A report after 10 seconds, after 30, and then every 30.
        report=$((report - start < 3000 ? start + 3000 : report + 3000))
    fi
    watch_port
done
say "$host:$port answers after $(((now - start) / 100)).$(((now - start) % 100 / 10)) s (by $by)"
