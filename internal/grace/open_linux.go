package grace

// candidates lists the providers by preference. A map update is a grace period by the kernel's own
// promise, on one CPU as well, and an expedited one on the newest kernels; membarrier needs no
// privilege; the sweep disturbs every CPU.
func candidates(o Options) []candidate {
	return []candidate{
		{mapInMapName, openMapInMap},
		{membarrierName, openMembarrier},
		{sweepName, func() (Provider, error) {
			if !o.Sweep {
				return nil, errNotAllowed
			}
			return openSweep(o.CPUs)
		}},
	}
}
