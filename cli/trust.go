package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acode-dev/acode/app"
	"github.com/acode-dev/acode/session"
	"github.com/acode-dev/acode/terminal"
)

func (i *Invocation) trustCommand() *cobra.Command {
	var digest string
	var revoke bool
	cmd := &cobra.Command{
		Use: "trust [DIR]", Short: "Trust AGENTS.md and CLAUDE.md of a workspace to tell models how to work there", Args: cobra.MaximumNArgs(1),
		Long: "Show AGENTS.md and CLAUDE.md of a workspace, and record that you trust them. A model that carries out\na prompt then gets them as data. Without trust, acode interprets nothing of a workspace except the\nresume settings in .agent/config.yml.\n\nThe trust is for exactly these bytes at this place: after a change you are asked again. On a\nterminal acode asks. Without a terminal, pass the digest that --json prints.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				i.dir = args[0]
			}
			setup, err := i.setup(nil)
			if err != nil {
				return err
			}
			if revoke {
				return i.revokeTrust(setup, digest)
			}
			return i.trust(setup, digest)
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "trust the content with this `HEX`, without a question")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "trust the workspace no longer")
	return cmd
}

// trustJSON is what a workspace would tell models, for scripts.
type trustJSON struct {
	V         int             `json:"v"`
	Workspace string          `json:"workspace"`
	Trusted   bool            `json:"trusted"`
	Before    bool            `json:"trusted_before"`
	Digest    string          `json:"digest,omitempty"`
	Files     []trustFileJSON `json:"files"`
	Refused   []string        `json:"refused,omitempty"`
}

type trustFileJSON struct {
	Path   string `json:"path"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

func (i *Invocation) trust(setup app.Setup, digest string) error {
	t, err := setup.Trust()
	if err != nil {
		return err
	}
	if digest != "" && digest != t.Digest {
		return &session.Error{Code: session.ErrConflict, Message: "the files of the workspace have another digest; nothing was changed", Place: t.Workspace, Next: session.Hint{Text: "to see them", Do: session.MoveTrust, Path: t.Workspace}}
	}
	if !i.JSON {
		if _, err := fmt.Fprint(i.Out, trustText(t, t.Masked(setup.Redactor.String))); err != nil {
			return err
		}
	}
	bind := digest != ""
	if !bind && !t.Trusted && len(t.Files) > 0 && !i.JSON {
		if !i.interactive() {
			return &session.Error{Code: session.ErrApproval, Message: "the workspace is not trusted, and no one can be asked; nothing was changed", Next: session.Words("to trust exactly this: acode trust --digest " + t.Digest + " " + session.ShellQuote(t.Workspace))}
		}
		if bind, err = unlessEnded(terminal.Approve(i.in, i.Err, "Trust this?")); err != nil {
			return err
		}
		if !bind {
			return &session.Error{Code: session.ErrDenied, Message: "the workspace is not trusted; nothing was changed"}
		}
	}
	if bind && !t.Trusted {
		if err := setup.BindTrust(t, whoAmI()); err != nil {
			return err
		}
		t.Trusted = true
	}
	return i.trustTold(t, t.Masked(setup.Redactor.String))
}

func (i *Invocation) trustTold(t, masked app.Trust) error {
	if i.JSON {
		out := trustJSON{V: 1, Workspace: t.Workspace, Trusted: t.Trusted, Before: t.Before, Digest: t.Digest, Refused: t.Refused, Files: []trustFileJSON{}}
		for n, f := range t.Files {
			out.Files = append(out.Files, trustFileJSON{f.Path, len(f.Text), f.Hash, masked.Files[n].Text})
		}
		return terminal.JSON(i.Out, out)
	}
	text := "Nothing of this workspace would be interpreted."
	if t.Trusted {
		text = "Trusted: models get " + t.Names() + " of this workspace as data."
	}
	_, err := fmt.Fprintln(i.Out, text)
	return err
}

func (i *Invocation) revokeTrust(setup app.Setup, digest string) error {
	if digest != "" {
		return &session.Error{Code: session.ErrUsage, Message: "--revoke cannot be combined with --digest; nothing was changed"}
	}
	was, err := setup.RevokeTrust()
	if err != nil {
		return err
	}
	if i.JSON {
		return terminal.JSON(i.Out, map[string]any{"v": 1, "workspace": setup.Workspace, "revoked": was})
	}
	text := "This workspace was not trusted."
	if was {
		text = "Revoked: no further prompt gets the files of this workspace."
	}
	_, err = fmt.Fprintln(i.Out, text)
	return err
}

// trustText shows a person what they would trust.
func trustText(t, masked app.Trust) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Workspace: %s\n", terminal.Clean(t.Workspace))
	for n, f := range t.Files {
		fmt.Fprintf(&b, "\n%s (%d bytes, SHA-256 %s)\n", f.Path, len(f.Text), f.Hash)
		for _, line := range strings.Split(strings.TrimSuffix(masked.Files[n].Text, "\n"), "\n") {
			b.WriteString("  " + terminal.CleanLines(line) + "\n")
		}
	}
	for _, why := range t.Refused {
		fmt.Fprintf(&b, "\nNot interpreted: %s\n", terminal.Clean(why))
	}
	if t.Digest != "" {
		fmt.Fprintf(&b, "\nDigest: %s\n", t.Digest)
	}
	if t.Before && !t.Trusted {
		b.WriteString("You trusted this workspace with other content.\n")
	}
	return b.String()
}
