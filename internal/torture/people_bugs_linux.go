package main

import (
	"context"
)

// judgedScenarios is how many scenarios peopleJudge carries out at most.
const judgedScenarios = 60

// peopleJudge lets people do what they do until a session goes wrong.
func peopleJudge() judge {
	return judge{"what people do", func(ctx context.Context, h *harness) (string, error) {
		for n := 1; n <= judgedScenarios; n++ {
			s, err := h.scenario(ctx, n)
			if err != nil {
				return "", err
			}
			if s.bad() {
				return s.String(), nil
			}
		}
		return "", nil
	}}
}

// peopleBugs gives the mistakes that what people do must find.
func peopleBugs() []bug {
	found := []judge{peopleJudge()}
	return []bug{
		{name: "an open question counts as done", judges: found, shows: `ends with 0, the session is "awaiting_approval"`, edits: []edit{{"cmd/app/exit.go",
			"	case r.Code == \"\":\n", "	case r.Code == \"\" || r.Code == session.ErrApproval:\n"}}},
	}
}
