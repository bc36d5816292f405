# A host of its own for one case: own processes, own /usr/lib, /var/lib, /boot and /opt, and the words
# that the cases are written in.
set -e
SCRATCH=$1
mount --make-rprivate /
mount -t tmpfs case "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work"
mount -t overlay case -o "lowerdir=/usr/lib,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" /usr/lib
rm -rf /usr/lib/modules
mkdir /usr/lib/modules
for place in /var/lib /boot /opt; do mount -t tmpfs -o mode=0755 case $place; done
mkdir -p /var/lib/pacman /var/lib/dpkg /opt/case
RUNNING=$(uname -r)

# kernel RELEASE [arch]: modules as every distribution has them; image and pkgbase as Arch has them.
kernel() {
    mkdir -p "/usr/lib/modules/$1/kernel/fs"
    touch "/usr/lib/modules/$1/modules.builtin" "/usr/lib/modules/$1/modules.order"
    if [ "$2" = arch ]; then
        touch "/usr/lib/modules/$1/vmlinuz"
        echo linux >"/usr/lib/modules/$1/pkgbase"
    fi
}

# until COMMAND...: at most 10 s.
until_true() {
    n=0
    while ! "$@"; do
        n=$((n + 1))
        [ $n -lt 200 ] || { echo "never: $*" >&2; exit 99; }
        sleep 0.05
    done
}

mapped() { grep -q "$1" "/proc/$PID/maps"; }

# runs PROGRAM: a copy of sleep at that path, running.
runs() {
    mkdir -p "${1%/*}"
    cp "$(command -v sleep)" "$1"
    "$1" 1000 &
    PID=$!
    until_true mapped "$1"
}

# loads LIBRARY [PROGRAM]: a process that runs code from that file.
loads() {
    mkdir -p "${1%/*}"
    cp "$(ldd "$(command -v perl)" | sed -n 's/.* => \(.*libm\.so\.6\) .*/\1/p')" "$1"
    LD_PRELOAD=$1 ${2:-sleep} 1000 &
    PID=$!
    until_true mapped "$1"
}

# replaces FILE: as every package manager does.
replaces() {
    cp "$1" "$1.new"
    mv "$1.new" "$1"
}

# maps KIND [FILE]: a process with an executable mapping that is no file of a package.
maps() {
    perl "$KIT/map.pl" "$@" >"$SCRATCH/maps" &
    PID=$!
    until_true grep -q mapped "$SCRATCH/maps"
}

# user COMMAND...: as nobody, with file systems of his own: an empty one over /opt/case, his own directory
# /opt/mine, which is on the same file system as /opt, over /opt/other. In a user namespace anybody can do that.
user() {
    mkdir -p /opt/case /opt/other /opt/mine
    chown 65534 /opt/mine
    unshare --mount sh -c 'mount -t tmpfs -o mode=0777 his /opt/case; mount --bind /opt/mine /opt/other
        exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"' user "$@" &
    PID=$!
}

# user_maps FILE: a mapping of a file of his own, which he has deleted.
user_maps() {
    user perl -e "$(cat "$KIT/map.pl")" file "$1" >"$SCRATCH/maps"
    until_true grep -q mapped "$SCRATCH/maps"
    until_true mapped "$1 (deleted)"
}

# user_mounts FILE: a file of root's that anybody may read, which the user mounts there in a user namespace of his own
# and maps; a second process, outside that namespace, maps it through the first one's root. Then root deletes it.
user_mounts() {
    mkdir -p "${1%/*}"
    touch "$1"
    cp "$(ldd "$(command -v perl)" | sed -n 's/.* => \(.*libm\.so\.6\) .*/\1/p')" /opt/roots
    map=$(cat "$KIT/map.pl")
    setpriv --reuid=65534 --regid=65534 --clear-groups unshare --user --map-root-user --mount \
        sh -c 'mount --bind /opt/roots "$1"; exec perl -e "$0" code "$1"' "$map" "$1" >"$SCRATCH/inside" &
    PID=$!
    until_true grep -q mapped "$SCRATCH/inside"
    setpriv --reuid=65534 --regid=65534 --clear-groups perl -e "$map" code "/proc/$PID/root$1" >"$SCRATCH/outside" &
    until_true grep -q mapped "$SCRATCH/outside"
    rm /opt/roots
    until_true mapped "$1 (deleted)"
    PID=$!
    until_true mapped "$1 (deleted)"
}

# user_calls_code FILE: the process of a user that maps any file as code.
user_calls_code() {
    setpriv --reuid=65534 --regid=65534 --clear-groups perl -e "$(cat "$KIT/map.pl")" code "$1" >"$SCRATCH/maps" &
    PID=$!
    until_true mapped "$1"
}

# user_loads LIBRARY: a file of root's, in the process of a user.
user_loads() {
    mkdir -p "${1%/*}"
    cp "$(ldd "$(command -v perl)" | sed -n 's/.* => \(.*libm\.so\.6\) .*/\1/p')" "$1"
    # By env: setpriv would map it as well, and could be taken for the process that it becomes.
    setpriv --reuid=65534 --regid=65534 --clear-groups env "LD_PRELOAD=$1" sleep 1000 &
    PID=$!
    until_true mapped "$1"
}

# locks FILE: a process that holds a write lock on it, as dpkg and rpm take theirs.
locks() {
    touch "$1"
    perl -MFcntl -e 'open(my $f, "+<", $ARGV[0]) or die $!;
        my $lock = pack("s s x4 q q i x4", F_WRLCK, 0, 0, 0, 0);
        fcntl($f, F_SETLK, $lock) or die $!;
        $| = 1; print "locked\n"; sleep 1000' "$1" >"$SCRATCH/locked" &
    until_true grep -q locked "$SCRATCH/locked"
}
