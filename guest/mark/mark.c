// SPDX-License-Identifier: GPL-2.0-or-later
/* bigiron-mark begin|end: for scripts that mark their own recorded part. It is put where programs find it. */
#include <stdio.h>
#include <string.h>

#include "bigiron.h"

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "begin"))
		bigiron_begin();
	else if (argc == 2 && !strcmp(argv[1], "end"))
		bigiron_end();
	else
		return fprintf(stderr, "usage: bigiron-mark begin|end\n"), 2;
	return 0;
}
