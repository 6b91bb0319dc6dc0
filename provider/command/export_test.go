package command

// SetHook makes hook be called at each named point of a supervisor.
func (c *SupervisorConfig) SetHook(hook func(string)) { c.hook = hook }

// SetHook makes hook be called at each named point of a runner.
func (c *Config) SetHook(hook func(string)) { c.hook = hook }

// ClaimPath is where the claim of key lies.
func ClaimPath(dir, key string) string { return claimPath(dir, key) }

// Stem is the part of file names that stands for key.
func Stem(key string) string { return stem(key) }
