//go:build race

package simulate_test

const race = true
