#!/usr/bin/env bash
# Makes this machine ready for bigiron: Debian packages first, then .venv with the command in it.
# Says in one line each what it installs and why, and nothing about what is there already.
# `setup.sh ppc64le` adds what virtual machines of ppc64le need, `setup.sh aarch64` what those of aarch64 do,
# `setup.sh fleet` the Python packages of a fleet,
# `setup.sh dev` those of `make lint` and `make check`, `setup.sh test` all of these and what the tests start.
# What one of them added stays when another one runs.
set -Eeuo pipefail
trap 'fail "line $LINENO of setup.sh"' ERR
cd -P "$(dirname "${BASH_SOURCE[0]}")"

# What bigiron starts and links with: the package that has it, and what for. Things are looked for, not packages:
# a QEMU or a Python of the user's own will do. tests/test_programs.py finds programs that are not named here.
things() {
    cat <<'END'
python    python3                      python3-venv     the virtual environment that bigiron lives in
program   sh                           dash             starts what is to be measured on a real machine
program   sleep                        coreutils        stands for a process whose memory may be read, or not
program   setpriv                      util-linux       has what bigiron starts end when bigiron ends
program   bash                         bash             runs this script and the tests' own
program   apt-get                      apt              fetches Debian's and Ubuntu's kernels
program   apt-cache                    apt              says which there are
program   apt-config                   apt              says how this machine reaches them
program   dpkg                         dpkg             compares their versions
program   dpkg-deb                     dpkg             unpacks them
program   prlimit                      util-linux       keeps a mirror from filling the disk
keyring   keyrings/debian-archive-keyring.gpg  debian-archive-keyring  verifies the kernels that bigiron fetches from Debian
program   gcc                          gcc              compiles the guest agent, the workloads and the QEMU plugin
program   objcopy                      binutils         strips kernels that were built here
program   objdump                      binutils         shows the tests what was compiled
program   ar                           binutils         makes the tests' libraries
library   libc.a                       libc6-dev        the static C library: the guest agent is one static binary
program   make                         make             make demo, make test
program   git                          git              reads kernel trees
program   clang                        clang            compiles the BPF programs of probes
library   libbpf.a                     libbpf-dev       loads BPF programs: it is linked into the guest agent
library   libelf.a                     libelf-dev       reads them for libbpf
library   libz.a                       zlib1g-dev       is needed by libelf
libzstd   libzstd.a                    libzstd-dev      is needed by libelf
program   flex                         flex             builds kernels from source, as do the next three: it makes the parser of their configuration
program   bison                        bison            makes it too
program   bc                           bc               computes constants of theirs
program   pahole                       dwarves          writes down their types for the probes
program   ccache                       ccache           keeps what was compiled for the next build
rust      cargo                        rust             compiles the simulator
program   mkfs.ext4                    e2fsprogs        makes the file systems of run --fs, as do the next three
program   mkfs.xfs                     xfsprogs         makes those of xfs
program   mkfs.btrfs                   btrfs-progs      makes those of btrfs
program   mkfs.f2fs                    f2fs-tools       makes those of f2fs
program   mmdebstrap                   mmdebstrap       makes the root file systems of run --root, of packages
program   sqfstar                      squashfs-tools   makes their images
program   zstd                         zstd             decompresses archives that are to become roots, and packages of kernels
program   unshare                      util-linux       keeps the scripts of packages away from this machine
program   newuidmap                    uidmap           does so for users other than root
program   rm                           coreutils        removes what was left of a root that was not completed
program   ssh                          openssh-client   reaches the machines of --machine ssh
qemu      qemu-system-x86_64           qemu-system-x86  boots those kernels: QEMU 10.0 to 10.2 or 11.1, as older ones crash newer kernels and others are not known
END
    [ "$(uname -m)" = x86_64 ] || cat <<'END'
program   x86_64-linux-gnu-gcc         gcc-x86-64-linux-gnu       compiles the guest agent and kernels for x86_64
crosslib  x86_64-linux-gnu-gcc         libc6-dev-amd64-cross      has the static C library for x86_64
emulator  qemu-x86_64-static           qemu-user-static runs the scripts of packages for x86_64
END
    [ "$purpose" != ppc64le ] && [ "$purpose" != test ] || cat <<'END'
qemu      qemu-system-ppc64            qemu-system-ppc  boots kernels of ppc64le: QEMU 10.0 to 10.2 or 11.1, too
program   powerpc64le-linux-gnu-gcc    gcc-powerpc64le-linux-gnu  compiles the guest agent and kernels for ppc64le
crosslib  powerpc64le-linux-gnu-gcc    libc6-dev-ppc64el-cross    has the static C library for ppc64le
emulator  qemu-ppc64le-static          qemu-user-static runs the scripts of packages for ppc64le
END
    [ "$purpose" != aarch64 ] && [ "$purpose" != test ] || cat <<'END'
qemu      qemu-system-aarch64          qemu-system-arm  boots kernels of aarch64: QEMU 10.0 to 10.2 or 11.1, too
program   aarch64-linux-gnu-gcc        gcc-aarch64-linux-gnu      compiles the guest agent and kernels for aarch64
crosslib  aarch64-linux-gnu-gcc        libc6-dev-arm64-cross      has the static C library for aarch64
emulator  qemu-aarch64-static          qemu-user-static runs the scripts of packages for aarch64
END
    [ "$purpose" != test ] || cat <<'END'
program   chromium-headless-shell      chromium-headless-shell  opens the reports of the tests
program   sshd                         openssh-server   is what the tests of --machine ssh connect to; it is kept from starting by itself
program   ssh-keygen                   openssh-client   makes their keys
program   unsquashfs                   squashfs-tools   reads the tests' roots
program   tar                          tar              makes an archive with holes
program   cpio                         cpio             reads what the tests' virtual machines start from
program   go                           golang-go        has pprof, which reads what bigiron exports
program   script                       bsdutils         makes a terminal for a test
program   mount                        mount            makes the tests' small disks
program   rpmkeys                      rpm              verifies Fedora's packages, and the tests'
program   rpmbuild                     rpm              makes the tests' packages
program   rpmsign                      rpm              signs them
program   gpg                          gpg              signs their archive of packages
program   gpg-agent                    gpg-agent        keeps its key
program   gpgconf                      gpgconf          ends that agent
program   umount                       mount            takes them away again
END
}
PATH=$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin # where rustup puts Rust, and Debian puts sshd
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

missing_packages() {
    local kind name package what
    things | while read -r kind name package what; do
        "${kind}_is_here" "$name" || package_of "$package"
    done | sort -u
}

package_of() {
    if [ "$1" != rust ]; then
        echo "$1"
    elif [ "$(codename)" = bookworm ]; then
        echo cargo-web # its own cargo is of 2022, this one it keeps for browsers
    else
        echo cargo
    fi
}

why() {
    local kind name package what
    things | while read -r kind name package what; do
        [ "$(package_of "$package")" != "$1" ] || echo "$what"
    done | sed -n 1p
}

install_packages() {
    local package obstacle left
    local -a ordinary=() newer=()
    obstacle=$(why_not_install)
    if [ -n "$obstacle" ]; then
        for package; do left+="${left:+, }$package ($(why "$package"))"; done
        say "$obstacle; going on without what bigiron needs: $left"
        ! have python3 || say "to install it: $(python3 src/bigiron/util/distribution.py "$@")"
        return
    fi
    # One broken source of the user's own must not stop us; a package that cannot be had will.
    apt_get update -q || say "apt-get update had an error, going on: $(first_error)"
    for package; do
        say "installing $package: $(why "$package")"
        case "$(codename) $package" in
            "bookworm qemu-system-"*) newer+=("$package") ;;
            *) ordinary+=("$package") ;;
        esac
        [ "$package" != openssh-server ] || keep_from_starting ssh.service ssh.socket
    done
    [ ${#ordinary[@]} = 0 ] || apt_install "${ordinary[@]}"
    if [ ${#newer[@]} != 0 ]; then
        add_backports bookworm
        apt_install -t bookworm-backports "${newer[@]}"
    fi
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

# No server was asked for on this machine.
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
    venv_is_usable && [ -x .venv/bin/bigiron ] && [ "$(cat .venv/setup-stamp 2>/dev/null)" = "$(stamp)" ] &&
        [ "$(extras)" = "$(known_extras)" ]
}

known_extras() { cat .venv/setup-extras 2>/dev/null || true; }

extras() { # of pyproject.toml: what is there already, and what is wanted now
    {
        known_extras | tr ',' '\n'
        case $purpose in
            fleet) echo fleet ;;
            dev | test) echo dev ;;
        esac
    } | sed '/^$/d' | sort -u | paste -sd ,
}

stamp() { # of all that the installation is made of; the Python code is used where it is
    find pyproject.toml setup.sh sim -path sim/target -prune -o -type f \
        \( -name '*.toml' -o -name '*.lock' -o -path 'sim/src/*' -o -name setup.sh \) -print0 |
        sort -z | xargs -0 sha256sum | sha256sum
}

make_venv() {
    local python with
    with=$(extras)
    if ! venv_is_usable; then
        python=$(find_python) || fail "no Python 3.11 or newer with its venv module on PATH, and bigiron needs one"
        say "making .venv with $("$python" --version): $(why python3-venv)"
        quietly "$python" -m venv --clear "$PWD/.venv" || fail "making .venv"
    fi
    say "installing bigiron${with:+ [$with]} into .venv, with the Python packages that pyproject.toml names and" \
        "explains, and compiling the simulator, which takes a minute"
    quietly .venv/bin/python -m pip install --no-input --disable-pip-version-check --editable ".${with:+[$with]}" ||
        fail "pip install"
    echo "$with" >.venv/setup-extras
    # As pip does with what it copies: some environments forbid Python to keep it, and each start takes twice as long.
    quietly .venv/bin/python -m compileall -q src || fail "compiling src"
    stamp >.venv/setup-stamp
}

python_is_here() { venv_is_usable || find_python >/dev/null; }
program_is_here() { have "$1"; }
keyring_is_here() { [ -e "/usr/share/$1" ]; }
library_is_here() { [ -e "$(library "$1")" ]; }
crosslib_is_here() { [ -e "$(library libc.a "$1")" ]; } # of that compiler
libzstd_is_here() { ! grep -q ZSTD_ "$(library libelf.a)" 2>/dev/null || library_is_here "$1"; }
library() { "${2-gcc}" -print-file-name="$1" 2>/dev/null; } # its bare name where there is none

qemu_is_here() { # an option that needs plugins, then the version: both answered by one start
    local program answer
    for program in "$1" .venv/lib/python3*/site-packages/bigiron_qemu/bin/"$1"; do
        answer=$("$program" -plugin none --version 2>/dev/null) || continue
        [[ $answer =~ version\ (10\.[0-2]|11\.1)\. ]] || continue
        [ "$program" = "$1" ] || venv_is_usable || continue # make_venv empties another
        return 0
    done
    return 1
}

emulator_is_here() { have "$1" || have "${1%-static}"; } # Debian 13's, all of which are static

rust_is_here() { # sim/Cargo.toml says from which version on
    local wanted here
    wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)".*/\1/p' sim/Cargo.toml)
    here=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) && cargo --version >/dev/null 2>&1 &&
        printf '%s\n' "$wanted" "$here" | sort --version-sort --check=quiet
}

codename() (. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME-}")

apt_install() {
    apt_get install -q -y --no-install-recommends --no-remove "$@" || fail "apt-get install $*"
}

# An archive that is being updated has each list under its hash before it has it under its name.
apt_get() {
    quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
        -o Acquire::By-Hash=force -o Acquire::Retries=3 "$@"
}
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
