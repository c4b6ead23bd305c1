package local

// TinyPages makes pages of a few entries, so that small tests merge, split, compact and put off.
func (o *Options) TinyPages() {
	o.geometry = geometry{pageEntries: 4, pageBytes: 300, settleBudget: 2, sparseCost: 40, stepsTime: 1}
}
