// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Division of 128 bits by 128, which the compiler of the core calls and the kernel does not have. */
#include <linux/types.h>

unsigned __int128 __udivti3(unsigned __int128 a, unsigned __int128 b);
__int128 __divti3(__int128 a, __int128 b);

/* The quotient of two words by one, which must fit into a word. */
static u64 divide(u64 high, u64 low, u64 by, u64 *rest)
{
	u64 quotient;

	asm("divq %4" : "=a"(quotient), "=d"(*rest) : "0"(low), "1"(high), "rm"(by) : "cc");
	return quotient;
}

unsigned __int128 __udivti3(unsigned __int128 a, unsigned __int128 b)
{
	u64 high = a >> 64, low = a, rest;
	unsigned __int128 quotient = 0;
	int shift;

	if (!(b >> 64)) {
		u64 first = divide(0, high, b, &rest);

		return (unsigned __int128)first << 64 | divide(rest, low, b, &rest);
	}
	if (a < b)
		return 0;
	for (shift = __builtin_clzll(b >> 64) - __builtin_clzll(high); shift >= 0; shift--) {
		if (a >= b << shift) {
			a -= b << shift;
			quotient |= (unsigned __int128)1 << shift;
		}
	}
	return quotient;
}

/* The same with signs: towards 0. */
__int128 __divti3(__int128 a, __int128 b)
{
	unsigned __int128 x = a, y = b, quotient = __udivti3(a < 0 ? -x : x, b < 0 ? -y : y);

	return (a < 0) == (b < 0) ? quotient : -quotient;
}
