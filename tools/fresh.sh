#!/usr/bin/env bash
# Does what the README says work on a Debian as it is when new? It is made of packages, in a folder, and this checkout's
# last commit is cloned into it.
#   fresh.sh all [RELEASE]     make demo and make test there
#   fresh.sh setup [RELEASE]   only setup.sh test and bigiron doctor, in minutes
# All happens in namespaces of its own, which end with this script however it ends: no mount and no process outlives it.
# Exit status: 1 if something failed there, 77 if this machine cannot do it at all.
set -Eeuo pipefail

what=${1-} release=${2:-bookworm}
checkout=$(cd -P "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=${XDG_CACHE_HOME:-$HOME/.cache}/bigiron/fresh/$release
root=$here/root log=$here/log
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

main() {
    [[ $what =~ ^(all|setup)$ ]] || { echo "usage: fresh.sh all|setup [RELEASE]" >&2 && exit 2; }
    [ "$EUID" = 0 ] || cannot "only root can change roots"
    unshare --mount --pid --fork true 2>/dev/null || cannot "no process may make namespaces on this machine"
    install_mmdebstrap
    mkdir -p "$here"
    exec 9<"$here" && flock --nonblock 9 || cannot "another one is at work in $here"
    trap remove EXIT
    trap 'exit 130' INT TERM HUP
    remove
    # In the background, as bash runs a trap only between commands, or in wait.
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
        "$checkout/tools/fresh.sh" "in-namespaces-$what" "$release" </dev/null 9<&- &
    namespaces=$!
    wait "$namespaces"
}

cannot() { echo "fresh: cannot be done here: $*" >&2 && exit 77; }

install_mmdebstrap() {
    command -v mmdebstrap >/dev/null && return
    say "installing mmdebstrap: makes a Debian of packages"
    { apt-get update -q -o Acquire::By-Hash=force && apt-get install -q -y --no-install-recommends mmdebstrap; } >/dev/null 2>&1 ||
        cannot "no mmdebstrap: apt-get install mmdebstrap"
}

remove() {
    local try
    [ -z "${namespaces-}" ] || kill -KILL "$namespaces" 2>/dev/null || true
    for try in 1 2 3 4 5; do # what was killed there may still be about to end
        ! rm -rf --one-file-system "$root" 2>/dev/null || return 0
        sleep "$try"
    done
    say "$root could not be removed"
}

# From here on in namespaces of our own.

all() {
    make_root ca-certificates,git,make
    step "make demo" make demo || true
    PYTEST_ADDOPTS="${PYTEST_ADDOPTS-} -rs" step "make test" make test || true
    complaints
    [ "$failed" = 0 ]
}

setup() {
    make_root ca-certificates
    step "setup.sh test" ./setup.sh test &&
        step "bigiron doctor" .venv/bin/bigiron doctor &&
        step "what is started is here" .venv/bin/python -m pytest -q tests/test_programs.py tests/test_doctor.py || true
    [ "$failed" = 0 ] || complaints
    [ "$failed" = 0 ]
}

make_root() {
    local -a sources
    local file
    say "making a root of Debian's $release in $root, in which nothing is but what every Debian has, and $1"
    mapfile -t sources < <(apt_sources)
    [ ${#sources[@]} != 0 ] || cannot "apt has no source of Debian here to take the address of a mirror from"
    # An archive that is being updated has each list under its hash before it has it under its name.
    printf '%s\n' 'Acquire::By-Hash "force";' 'Acquire::Retries "3";' >"$here/apt.conf"
    apt-config dump --no-empty Acquire::http Acquire::https Acquire::Retries Acquire::Check-Valid-Until \
        Acquire::Check-Date >>"$here/apt.conf"
    # It may all be lost at any time, so dpkg need not wait for the disk.
    logged mmdebstrap --mode=root --variant=minbase --include="$1" --aptopt="$here/apt.conf" \
        --dpkgopt=force-unsafe-io "$release" "$root" "${sources[@]}" || fail "mmdebstrap"
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d" # no services
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf ~/.config/pip/pip.conf ~/.cargo/config.toml; do
        [ ! -e "$file" ] || install -D -m 644 "$file" "$root$(realpath -ms "$file" | sed "s#^$HOME/#/root/#")"
    done
    for file in /proc /sys /dev; do mount --rbind "$file" "$root$file"; done
    file=/etc/ssl/certs/ca-certificates.crt # a proxy's certificate may be in it
    [ ! -e "$file" ] || mount --bind "$file" "$root$file"
    logged git clone --quiet "$checkout" "$root/root/bigiron" || fail "git clone"
}

# The mirror that this machine's own apt uses, for another release too.
apt_sources() {
    local main security
    main=$(mirror Debian) security=$(mirror Debian-Security)
    [ -n "$main" ] || return 0
    echo "deb [signed-by=$keyring] $main $release main"
    echo "deb [signed-by=$keyring] $main $release-updates main"
    [ -z "$security" ] || echo "deb [signed-by=$keyring] $security $release-security main"
}

mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' "Label: $1" 'Created-By: Packages' | sed -n 1p
}

step() {
    local name=$1 begin=$SECONDS
    shift
    say "$name"
    if logged in_root env -i "${environment[@]}" ${PYTEST_ADDOPTS+"PYTEST_ADDOPTS=$PYTEST_ADDOPTS"} \
        bash -c 'cd ~/bigiron && "$@"' bash "$@"; then
        say "$name: passed after $((SECONDS - begin)) s"
    else
        say "$name: failed after $((SECONDS - begin)) s"
        failed=1
        return 1
    fi
}

# A process whose root was changed by chroot may make no user namespace, which roots of packages are made in.
in_root() {
    unshare --mount --propagation private bash -c \
        'mount --rbind "$1" "$1" && cd "$1" && pivot_root . . && umount --lazy . && shift && exec "$@"' bash "$root" "$@"
}

complaints() {
    local patterns='^(SKIPPED|FAILED|ERROR|E:) |^(setup|bigiron|doctor): |[Cc]ommand not found|no [a-z][^ ]* on PATH|: error: '
    say "what was said of things that are missing or fail (all that was printed is in $log):"
    grep -aE "$patterns" "$log" | cut -c -300 | awk '!seen[$0]++' | tail -n 60 || say "nothing"
}

# How this machine reaches package registries is in its environment; nothing else of it goes there.
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb)
while IFS='=' read -r -d '' name value; do
    case $name in
        *_proxy | *_PROXY | PIP_* | CARGO_HTTP_* | CARGO_NET_* | SSL_CERT_* | *_CA_BUNDLE | CI)
            environment+=("$name=$value") ;;
    esac
done < <(env -0)
failed=0

logged() { if [ "$what" = in-namespaces-all ]; then "$@" 2>&1 | tee -a "$log"; else "$@" >>"$log" 2>&1; fi; }
say() { echo "fresh: $*"; }
fail() { complaints && say "failed: $*" && exit 1; }

{ # read as a whole: the script may be changed while it runs
    case $what in
        in-namespaces-*) : >"$log" && "${what#in-namespaces-}" ;;
        *) main ;;
    esac
    exit
}
