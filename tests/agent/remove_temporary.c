// SPDX-License-Identifier: GPL-2.0-or-later
/* Removes what it is given the names of, as the guard removes what a workload of one task has made. */
#include <string.h>

#include "real/temporary.h"

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		temporary_take(argv[i], strlen(argv[i]));
	temporary_remove(1);
	return 0;
}
