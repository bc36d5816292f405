# Maps memory as just-in-time compilers and databases do, says so, and stays.
use strict;
use warnings;

my ($kind, $file) = @ARGV;
my ($mmap, $memfd, $shmget, $shmat);
if (`uname -m` =~ /^x86_64/) { ($mmap, $memfd, $shmget, $shmat) = (9, 319, 29, 30) }
elsif (`uname -m` =~ /^aarch64/) { ($mmap, $memfd, $shmget, $shmat) = (222, 279, 194, 196) }
else { die "system calls of this architecture are not known" }
my ($read, $code, $shared, $private, $anonymous) = (1, 4, 1, 2, 0x20);

sub must { my ($what, $result) = @_; die "$what: $!" if $result == -1; return $result }

sub map_fd {
    my ($fd, $rights) = @_;
    must("mmap", syscall($mmap, 0, 4096, $rights, $private, $fd, 0));
}

if ($kind eq "memfd") {
    my $name = "/usr/lib/jit";
    my $fd = must("memfd_create", syscall($memfd, $name, 0));
    open(my $handle, "+>&=", $fd) or die $!;
    truncate($handle, 4096) or die $!;
    map_fd($fd, $read | $code);
} elsif ($kind eq "zero") {
    must("mmap", syscall($mmap, 0, 4096, $read | $code, $shared | $anonymous, -1, 0));
} elsif ($kind eq "segment") {
    my $id = must("shmget", syscall($shmget, 0, 4096, 0700));
    must("shmat", syscall($shmat, $id, 0, 0100000));
} elsif ($kind eq "code") {
    open(my $handle, "<", $file) or die "$file: $!";
    map_fd(fileno($handle), $read | $code);
} elsif ($kind eq "file" or $kind eq "data") {
    open(my $handle, "+>", $file) or die "$file: $!";
    truncate($handle, 4096) or die $!;
    map_fd(fileno($handle), $kind eq "file" ? $read | $code : $read);
    unlink($file) or die $!;
} else {
    die "what is $kind?";
}
$| = 1;
print "mapped\n";
sleep 1000;
