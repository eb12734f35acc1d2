package grace

// candidates lists the providers. Looking at nest levels interrupts nobody. A map update is a grace period by
// the kernel's own promise, on one CPU as well, and an expedited one from Linux 6.19 on. membarrier takes no
// privilege.
func candidates() []candidate {
	return []candidate{
		{NestLevels, openNestLevels},
		{BindMount, openBindMount},
		{MapInMap, openMapInMap},
		{Membarrier, openMembarrier},
	}
}
