package grace

// candidates lists the providers. NestLevels interrupts nobody. For MapInMap the kernel itself
// promises a grace period, even on one CPU; it is expedited from Linux 6.19 on. Membarrier needs no
// privilege.
func candidates() []candidate {
	return []candidate{
		{NestLevels, openNestLevels},
		{BindMount, openBindMount},
		{MapInMap, openMapInMap},
		{Membarrier, openMembarrier},
	}
}
