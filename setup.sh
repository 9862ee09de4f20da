#!/usr/bin/env bash
# Makes this machine ready for bigiron: Debian packages first, then .venv with the command in it.
# Says in one line each what it installs and why, and nothing about what is there already.
# `setup.sh test` gets what the tests need, too.
set -Eeuo pipefail
trap 'fail "line $LINENO of setup.sh"' ERR
cd -P "$(dirname "${BASH_SOURCE[0]}")"

declare -A why=(
    [python3-venv]="the virtual environment that bigiron lives in"
    [gcc]="compiles the guest agent, the workloads and the QEMU plugin"
    [libc6-dev]="the static C library: the guest agent is one static binary"
    [make]="make demo, make test"
    [git]="reads kernel trees"
    [debian-archive-keyring]="verifies the kernels that bigiron fetches"
    [clang]="compiles the BPF program of the probe blocked"
    [libbpf-dev]="loads BPF programs: it is linked into the guest agent"
    [libelf-dev]="reads them for libbpf"
    [zlib1g-dev]="is needed by libelf"
    [libzstd-dev]="is needed by libelf"
    [flex]="builds kernels from source, as do the next three: it makes the parser of their configuration"
    [bison]="makes it too"
    [bc]="computes constants of theirs"
    [dwarves]="has pahole, which writes down their types for the probes"
    [ccache]="keeps what was compiled for the next build"
    [cargo]="compiles the simulator"
    [cargo-web]="compiles the simulator: Debian 12's own cargo is of 2022, this one it keeps for browsers"
    [chromium]="opens the reports of the tests"
    [openssh-server]="is what the tests of --machine ssh connect to; it is kept from starting by itself"
    [qemu-system-x86]="boots those kernels: QEMU 10 or newer, as older ones crash newer kernels"
)
PATH=$PATH:$HOME/.cargo/bin # where rustup puts Rust
purpose=${1-}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
log=$(mktemp -t bigiron-setup.XXXXXX)

main() {
    exec 9<setup.sh && flock 9 # two makes at once would fill one .venv together
    local -a packages
    mapfile -t packages < <(missing_packages)
    [ ${#packages[@]} = 0 ] || install_packages "${packages[@]}"
    venv_is_current || make_venv
    rm -f "$log"
}

# Things are looked for, not packages: a QEMU or a Python of the user's own will do.
missing_packages() {
    venv_is_usable || find_python >/dev/null || echo python3-venv
    have gcc || echo gcc
    has_library libc.a || echo libc6-dev
    have make || echo make
    have git || echo git
    [ -e $keyring ] || echo debian-archive-keyring
    have clang || echo clang
    has_library libbpf.a || echo libbpf-dev
    has_library libelf.a || echo libelf-dev
    has_library libz.a || echo zlib1g-dev
    ! grep -q ZSTD_ "$(library libelf.a)" 2>/dev/null || has_library libzstd.a || echo libzstd-dev
    have flex || echo flex
    have bison || echo bison
    have bc || echo bc
    have pahole || echo dwarves
    have ccache || echo ccache
    rust_is_usable || rust_package
    have chromium || echo chromium
    [ "$purpose" != test ] || have sshd || [ -x /usr/sbin/sshd ] || echo openssh-server
    qemu_is_usable || echo qemu-system-x86
}

install_packages() {
    local package obstacle left codename
    obstacle=$(why_not_install)
    if [ -n "$obstacle" ]; then
        for package; do left+="${left:+, }$package (${why[$package]})"; done
        say "$obstacle; going on without what bigiron needs: $left"
        return
    fi
    # One broken source of the user's own must not stop us; a package that cannot be had will.
    apt_get update -q || say "apt-get update had an error, going on: $(first_error)"
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    for package; do
        say "installing $package: ${why[$package]}"
        if [ "$package" = qemu-system-x86 ] && [ "$codename" = bookworm ]; then
            add_backports bookworm
            apt_install -t bookworm-backports "$package"
        else
            [ "$package" != openssh-server ] || keep_from_starting ssh.service ssh.socket
            apt_install "$package"
        fi
    done
    left=$(missing_packages | paste -sd ' ')
    [ -z "$left" ] || fail "installed, yet still not usable: $left (does an older one come first on PATH?)"
}

why_not_install() {
    local NAME="an unknown system" ID="" VERSION_ID=""
    [ ! -r /etc/os-release ] || . /etc/os-release
    case "$ID $VERSION_ID" in
        "debian 12" | "debian 13") [ "$EUID" = 0 ] || have sudo || echo "neither root nor sudo here" ;;
        *) echo "setup can install packages on Debian 12 and 13 only, and this is $NAME $VERSION_ID" ;;
    esac
}

# apt takes a package from backports only where asked with -t, so adding them changes nothing else.
add_backports() {
    local release=$1 uri list=/etc/apt/sources.list.d/bigiron-backports.sources
    [ -z "$(apt-get indextargets "Codename: $release-backports")" ] || return 0
    uri=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $release" "Origin: Debian" | head -n 1)
    [ -n "$uri" ] || fail "apt has no source of Debian $release here to take the address of its backports from"
    say "adding $list: QEMU 10 comes from $release-backports"
    printf '%s\n' "Types: deb" "URIs: $uri" "Suites: $release-backports" "Components: main" "Signed-By: $keyring" |
        as_root tee "$list" >/dev/null
    apt_get update -q -o Dir::Etc::SourceList="$list" -o Dir::Etc::SourceParts=- -o APT::Get::List-Cleanup=0 ||
        fail "apt-get update of $list"
}

# Nobody asked for a server on this machine.
keep_from_starting() {
    local unit
    [ -d /run/systemd/system ] || return 0
    for unit; do as_root ln -sf /dev/null "/etc/systemd/system/$unit"; done
}

find_python() {
    local python
    for python in python3 /usr/bin/python3 python3.{15,14,13,12,11}; do
        "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
        echo "$python"
        return
    done
    return 1
}

# A tree that was moved or copied has a .venv whose scripts still start the old place's Python.
venv_is_usable() {
    grep -qF "$PWD/.venv" .venv/pyvenv.cfg 2>/dev/null &&
        .venv/bin/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

venv_is_current() {
    venv_is_usable && [ -x .venv/bin/bigiron ] && [ "$(cat .venv/setup-stamp 2>/dev/null)" = "$(stamp)" ]
}

stamp() { # of all that the installation is made of; the Python code is used where it is
    find pyproject.toml setup.sh sim -path sim/target -prune -o -type f \
        \( -name '*.toml' -o -name '*.lock' -o -path 'sim/src/*' -o -name setup.sh \) -print0 |
        sort -z | xargs -0 sha256sum | sha256sum
}

make_venv() {
    local python
    if ! venv_is_usable; then
        python=$(find_python) || fail "no Python 3.11 or newer with its venv module on PATH, and bigiron needs one"
        say "making .venv with $("$python" --version): ${why[python3-venv]}"
        quietly "$python" -m venv --clear "$PWD/.venv" || fail "making .venv"
    fi
    say "installing bigiron into .venv, with the Python packages that pyproject.toml names and explains," \
        "and compiling the simulator, which takes a minute"
    quietly .venv/bin/python -m pip install --no-input --disable-pip-version-check --editable '.[dev]' ||
        fail "pip install"
    stamp >.venv/setup-stamp
}

library() { gcc -print-file-name="$1" 2>/dev/null; } # its bare name where there is none
has_library() { [ -e "$(library "$1")" ]; }

qemu_is_usable() { # an option that needs plugins, then the version: both answered by one start
    local answer
    answer=$(qemu-system-x86_64 -plugin none --version 2>/dev/null) &&
        [[ $answer =~ version\ ([0-9]+) ]] && ((BASH_REMATCH[1] >= 10))
}

rust_is_usable() { # sim/Cargo.toml says from which version on
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' sim/Cargo.toml)
    have=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) && cargo --version >/dev/null 2>&1 &&
        printf '%s\n' "$wanted" "$have" | sort --version-sort --check=quiet
}

rust_package() {
    if [ "$(. /etc/os-release && echo "${VERSION_CODENAME-}")" = bookworm ]; then echo cargo-web; else echo cargo; fi
}

apt_install() {
    apt_get install -q -y --no-install-recommends --no-remove "$@" || fail "apt-get install $*"
}

apt_get() { quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }
as_root() { if [ "$EUID" = 0 ]; then "$@"; else sudo "$@"; fi; }
quietly() { "$@" >"$log" 2>&1 </dev/null; }
have() { command -v "$1" >/dev/null; }
say() { echo "setup: $*"; }

first_error() { grep -m 1 -iE '^(E:|error|sudo:)' "$log" || tail -n 1 "$log"; }

fail() { # with the last command's own words, where it left any
    if [ -s "$log" ]; then
        echo "setup: failed: $*: $(first_error) (its output is in $log)" >&2
    else
        echo "setup: failed: $*" >&2
    fi
    exit 1
}

main
