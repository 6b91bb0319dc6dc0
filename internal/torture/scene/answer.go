package scene

import "fmt"

// Answer is how a person tells acode what became of a command whose outcome is unknown: verdict, which is
// "done" or "rerun". Of a command that captures the person knows the value.
func (p Place) Answer(name, verdict string) []string {
	if s, _ := p.Find(name); s.Captures && verdict == "done" {
		return []string{"--capture", name + "=" + s.Value}
	}
	return []string{"--uncertain=" + name + "=" + verdict}
}

// Tidy brings the files that the command of a step changes to where the verdict about it says that they
// are: a kill or a power cut may have left half of what it did.
func (p Place) Tidy(name, verdict string) error {
	s, i := p.Find(name)
	if len(s.Does) == 0 {
		return nil
	}
	if verdict == "done" {
		i++
	}
	want := p.States()[i]
	for _, c := range s.Does {
		for _, file := range c.Paths() {
			if err := p.Put(file, want); err != nil {
				return fmt.Errorf("tidy up: %w", err)
			}
		}
	}
	return nil
}
