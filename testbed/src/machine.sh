# Makes a root one that firmware boots: systemd-boot with an entry whose boots are counted, one kernel installed, and below
# /srv/kernels a newer one (good.deb) and one that finds no root (bad.deb). $1: the root.
set -e
cat >"$1/tmp/kernels" <<'END'
set -e
export DEBIAN_FRONTEND=noninteractive SYSTEMD_RELAX_ESP_CHECKS=1
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
mkdir -p /boot/efi /etc/kernel /etc/systemd/network /srv/kernels
# With panic=, Debian's initrd and the kernel reboot where they would wait for a person.
echo 'root=LABEL=root rw console=ttyS0 panic=2 rootdelay=5' >/etc/kernel/cmdline
echo layout=bls >/etc/kernel/install.conf
echo 3 >/etc/kernel/tries
printf 'LABEL=root / ext4 defaults 0 0\nLABEL=ESP /boot/efi vfat umask=0077 0 0\n' >/etc/fstab
printf '[Match]\nDriver=virtio_net\n[Link]\nName=host0\n' >/etc/systemd/network/10-host0.link
echo 'UsePAM no' >/etc/ssh/sshd_config.d/bed.conf
mount --bind /boot/efi /boot/efi
bootctl --esp-path=/boot/efi --no-variables install
# Debian's archives have two kernels at least, but on a release's first days.
all=$(apt-cache --names-only search '^linux-image-[0-9].*[0-9]-cloud-amd64$' | cut -d' ' -f1 | sort -V)
old=$(echo "$all" | tail -n 2 | head -n 1)
new=$(echo "$all" | tail -n 1)
if [ "$old" = "$new" ]; then echo "Debian has no two kernels: $all" >&2; exit 1; fi
apt-get -y --no-install-recommends install "$old"
# The directory looks like no mount point of its own to kernel-install.
sed -i 's,/boot/efi/,/,' /boot/efi/loader/entries/*.conf
cd /srv/kernels
apt-get download "$new"
mv ./*.deb good.deb
# One with a newer name and without modules, the disk's among them.
dpkg-deb -R good.deb bad
release=${new#linux-image-}
bad=$(echo "$release" | sed 's/[0-9]*+deb/999+deb/')
for file in boot/vmlinuz boot/config boot/System.map; do mv "bad/$file-$release" "bad/$file-$bad"; done
mkdir -p "bad/usr/lib/modules/$bad"
for list in modules.builtin modules.builtin.modinfo modules.order; do
  mv "bad/usr/lib/modules/$release/$list" "bad/usr/lib/modules/$bad/"
done
rm -r "bad/usr/lib/modules/$release" bad/usr/share bad/DEBIAN/md5sums
: >"bad/usr/lib/modules/$bad/modules.order"
sed -i "s/$release/$bad/g" bad/DEBIAN/*
dpkg-deb -Znone -b bad bad.deb
rm -r bad
END
unshare --mount chroot "$1" sh /tmp/kernels </dev/null >&2
rm "$1/tmp/kernels"
