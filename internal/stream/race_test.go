//go:build race

package stream

// A merger has one user at a time: the race detector finds little, and runs ten times slower.
const seeds = 2
