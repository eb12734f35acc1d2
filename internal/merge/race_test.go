//go:build race

package merge_test

// A merger has one user at a time, so the race detector has little to look for and makes it ten times slower.
const seeds = 2
