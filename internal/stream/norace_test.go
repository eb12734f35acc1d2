//go:build !race

package stream

// seeds is how many runs a test of random choices makes of each set-up.
const seeds = 6
