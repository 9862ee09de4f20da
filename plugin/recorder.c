// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The recorder: a QEMU plugin that counts, while a workload's tasks do a fixed number of operations or in a part of a
 * program's run, how often each kernel instruction on each CPU touches each cache line, how many instructions each
 * function executes, which locks are taken.
 *
 *	recording/marks		the agent's commands: arm, disarm	-> request
 *	recording/parts		the parts of a program's run		-> program
 *	recording/tests		many small recordings, one after the other
 *	recording/results	writes it all				-> folder
 *	translation		instruments code, once it is armed, with callbacks of
 *	execution/user_code	    user code, where tasks count operations	-> operations
 *	execution/control_flow	    calls, returns, interrupts, switches	-> contexts, stacks, chains
 *	execution/blocks	    blocks of instructions		-> instructions
 *	execution/lock_calls	    calls of lock functions		-> locks
 *	memory/accesses		    accesses to memory			-> open_lines, by sequences -> lines; pages
 *	memory/allocators	    calls of allocators			-> allocations
 *	trace/trace_events	    what sampled operations do, in order	-> traces
 *	translation/symbols	the kernel's symbols, and what they mean
 *	qemu/time_slices	how long QEMU runs a CPU before the next
 *	many_cpus/many_cpus	what QEMU does for each CPU of a machine, though it concerns one
 *	many_cpus/code_pages	the same, for each page of code
 *
 * Until the agent's mark MARK_ARM nothing is instrumented but the marks themselves, so a boot runs at full speed. The
 * mark throws all translated code away. MARK_DISARM writes the result and throws the instrumented code away again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arch/guest.h"
#include "cpu/cpu.h"
#include "lib/attributes.h"
#include "lib/names.h"
#include "many_cpus/code_pages.h"
#include "many_cpus/many_cpus.h"
#include "protocol/folder.h"
#include "qemu/qemu_api.h"
#include "recording/marks.h"
#include "translation/translation.h"

EXPORT int qemu_plugin_version = OLD_API_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

#define MANY_CPUS 32 /* of fewer, what QEMU does for each CPU costs little */

static bool has_many_cpus;

static void on_cpu_init(void)
{
	if (!cpus_have_one_thread()) {
		fprintf(stderr, "recorder: QEMU runs CPUs in several threads: use -accel tcg,thread=single\n");
		_exit(1);
	}
	guest_find_registers();
	if (has_many_cpus)
		many_cpus_init();
}

/* QEMU looks at it before it calls anything, and refuses versions older than its callbacks' arguments. */
__attribute__((constructor)) static void choose_api_version(void)
{
	bool is_new = dlsym(RTLD_DEFAULT, "qemu_plugin_set_pc"); /* since version 6, which no release that was tried has */

	qemu_plugin_version = is_new ? NEW_API_VERSION : OLD_API_VERSION;
}

/* QEMU itself does not refuse a plugin made for an older version, unless what that has is known to have changed. */
static bool is_known(const qemu_info_t *info)
{
	int version = info->version.cur;

	if (info->version.min <= version && (version == 4 || version == 5 || version == NEW_API_VERSION))
		return true;
	fprintf(stderr, "recorder: knows versions 4, 5 and 7 of QEMU's plugin interface (QEMU 10.0 to 10.2, 11.1), not %d\n",
		version);
	return false;
}

static int use_folder(int argc, char **argv)
{
	static const char option[] = "out=";

	if (argc == 1 && starts_with(argv[0], option))
		return folder_init(argv[0] + strlen(option));
	fprintf(stderr, "recorder: its one argument is out=FOLDER\n");
	return -1;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	if (!is_known(info))
		return -1;
	if (!info->system_emulation || !guest_init(info->target_name)) {
		fprintf(stderr, "recorder: no support for %s\n", info->target_name);
		return -1;
	}
	if (use_folder(argc, argv))
		return -1;
	has_many_cpus = info->system.max_vcpus >= MANY_CPUS;
	if (has_many_cpus)
		code_pages_init();
	cpus_init(info->system.max_vcpus);
	qemu_plugin_register_vcpu_init_cb(id, on_cpu_init, NULL);
	translation_init(id, info->version.cur, on_mark);
	return 0;
}
