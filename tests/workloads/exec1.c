// SPDX-License-Identifier: GPL-2.0-or-later
/* What UnixBench's execl and every shell do: a child that becomes another program. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char *testcase_description = "fork a child that executes a program, and wait for it";

#ifndef __x86_64__
#error its program is one for x86-64
#endif

static const char path[] = "/tmp/exec1.program";

static const struct {
	Elf64_Ehdr file;
	Elf64_Phdr segment;
	unsigned char code[9];
} program = {
	.file = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_entry = 0x400000 + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr),
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 1,
	},
	.segment = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = 0x400000,
		.p_filesz = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 9,
		.p_memsz = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 9,
		.p_align = 4096,
	},
	.code = {0xb8, 231, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05}, /* exit_group(0): mov $231,%eax; xor %edi,%edi; syscall */
};

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);

	(void)nr_tasks;
	if (fd < 0 || write(fd, &program, sizeof(program)) != sizeof(program) || close(fd))
		die("exec1: the program");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char *arguments[] = {(char *)path, NULL};

	(void)nr;
	while (1) {
		pid_t child = fork();
		int status = 1;

		if (!child) {
			execv(path, arguments);
			_exit(1);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			die("exec1");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
