// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs one of the agent's parsers, parse_*.c beside this, alone: over files, or under libFuzzer. To look for more than
 * tests/agent/corpus/NAME holds, and to keep of it only what reaches new code:
 *
 *	clang -g -O1 -DFUZZ -fsanitize=fuzzer,address,undefined -iquote guest tests/agent/parse.c \
 *		tests/agent/parse_NAME.c guest/{tracing/{switches,graph,hot_functions},protocol/job}.c -o fuzz
 *	./fuzz -max_len=4096 found tests/agent/corpus/NAME && ./fuzz -merge=1 tests/agent/corpus/NAME found
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern void parse(FILE *text, FILE *rows);

#ifdef FUZZ
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	FILE *text = size ? fmemopen((void *)data, size, "r") : NULL;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	if (text) {
		parse(text, nowhere);
		fclose(text);
	}
	return 0;
}
#else
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *text = fopen(argv[i], "r");

		if (!text) {
			perror(argv[i]);
			exit(1);
		}
		parse(text, stdout);
		fclose(text);
	}
	return 0;
}
#endif
