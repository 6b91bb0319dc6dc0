package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// Limits of prose. Rates are per thousand words of the comments of a folder.
const (
	// maxVague is the rate for the words of vagueWord.
	maxVague = 1
	// maxWhat is the rate for one vague pronoun.
	maxWhat = 3
	// maxColumns is the width of a line that holds only a comment.
	maxColumns = 90
	// maxTrailing is the percentage of comment lines that stand behind code.
	maxTrailing = 15
	// maxSentence is the number of words in a sentence.
	maxSentence = 35
)

// Prose holds the counts of the comments of one folder.
type Prose struct {
	Dir                string
	Words, Vague, What int
	// Lines holds comments. Trailing of them have code before the comment.
	Lines, Trailing int
	// Wide lines, long sentences and archaic words.
	Wide, Long, Old        int
	breaches               []Breach
	vague, what, trailings []token.Position
}

func vagueWord(w string) bool {
	return slices.Contains([]string{"nobody", "somebody", "whoever", "whatever"}, w)
}

// old matches words that English no longer uses, or that manuals do not use.
// The brackets keep the pattern from matching its own text.
var old = regexp.MustCompile(`(?i)\b([a]new|[m]end|[m]ends|[m]ended|[m]ending|[b]e it|[s]hall|[i]n vain|[s]tands? recorded|[h]itherto|[t][h]erein|[t]hereof|[h]erein|[l]est|[e]re|[w]hilst|[a]miss|[n]aught|[n]ought|[a]las|[b]etwixt)\b`)

var wordPattern = regexp.MustCompile("`[^`]*`|[\\pL\\pN]+(?:[-'’_./@%][\\pL\\pN]+)*")

// words returns the words of a text in lower case. Code between back quotes is one word.
func words(text string) []string {
	return wordPattern.FindAllString(strings.ToLower(text), -1)
}

// sentenceEnd matches a possible end of a sentence.
var sentenceEnd = regexp.MustCompile(`[.!?]["')\]*_]*(\s+|$)`)

// sentences splits paragraphs into sentences.
func sentences(paragraph string) []string {
	var out []string
	from := 0
	for _, at := range sentenceEnd.FindAllStringIndex(paragraph, -1) {
		head := strings.TrimRight(paragraph[from:at[0]+1], " ")
		if last := head[strings.LastIndexAny(head, " (")+1:]; last == "e.g." || last == "i.e." || last == "etc." {
			continue
		}
		out = append(out, paragraph[from:at[1]])
		from = at[1]
	}
	if strings.TrimSpace(paragraph[from:]) != "" {
		out = append(out, paragraph[from:])
	}
	return out
}

// longSentences returns the sentences of a paragraph that have too many words.
func longSentences(paragraph string) []string {
	return slices.DeleteFunc(sentences(paragraph), func(s string) bool { return len(words(s)) <= maxSentence })
}

var (
	listItem  = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`)
	directive = regexp.MustCompile(`^//(go|nolint|lint|export|line)\b`)
)

// paragraphs splits lines of prose at empty lines and list items.
func paragraphs(lines []string) []string {
	var out []string
	var now []string
	flush := func() {
		if len(now) > 0 {
			out = append(out, strings.Join(now, " "))
		}
		now = nil
	}
	for _, l := range lines {
		switch text := strings.TrimSpace(l); {
		case text == "":
			flush()
		case listItem.MatchString(l):
			flush()
			now = append(now, listItem.ReplaceAllString(l, ""))
		default:
			now = append(now, text)
		}
	}
	flush()
	return out
}

// ReadProse counts the comments of the whole tree by folder, tests included.
func ReadProse(t *Tree) []*Prose {
	dirs := map[string]*Prose{}
	for _, f := range t.Files {
		p := dirs[f.Dir]
		if p == nil {
			p = &Prose{Dir: f.Dir}
			dirs[f.Dir] = p
		}
		p.read(t, f)
	}
	var out []*Prose
	for _, dir := range sortedKeys(dirs) {
		out = append(out, dirs[dir])
	}
	return out
}

func (p *Prose) read(t *Tree, f *File) {
	code := codeLines(t, f)
	for _, group := range f.AST.Comments {
		var lines []string
		for _, c := range group.List {
			if directive.MatchString(c.Text) {
				continue
			}
			at := t.Fset.Position(c.Pos())
			for i, l := range strings.Split(c.Text, "\n") {
				p.Lines++
				trailing := i == 0 && code[at.Line]
				if trailing {
					p.Trailing++
					p.trailings = append(p.trailings, at)
				} else if columns(l)+at.Column-1 > maxColumns {
					p.Wide++
					p.add(t.breach(c.Pos(), "a line with a comment has at most %d columns", maxColumns))
				}
				l = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(l, "//"), "/*"), "*/")
				if strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "    ") {
					// Indented lines of a comment are code.
					l = ""
				}
				lines = append(lines, l)
			}
		}
		p.text(t, group, lines)
	}
	if !f.Test {
		p.messages(t, f)
	}
}

func (p *Prose) text(t *Tree, group *ast.CommentGroup, lines []string) {
	at := t.Fset.Position(group.Pos())
	for _, w := range words(strings.Join(lines, " ")) {
		p.Words++
		switch {
		case vagueWord(w):
			p.Vague++
			p.vague = append(p.vague, at)
		case w == "what":
			p.What++
			p.what = append(p.what, at)
		}
	}
	for _, par := range paragraphs(lines) {
		for _, s := range longSentences(par) {
			p.Long++
			p.add(t.breach(group.Pos(), "a sentence has at most %d words, this one %d: %s", maxSentence, len(words(s)), start(s)))
		}
		for _, w := range old.FindAllString(par, -1) {
			p.Old++
			p.add(t.breach(group.Pos(), "%q is not plain English of today", w))
		}
	}
}

// messages finds archaic words in the string literals of the code.
func (p *Prose) messages(t *Tree, f *File) {
	f.eachText(func(at token.Pos, text string) {
		for _, w := range old.FindAllString(text, -1) {
			p.Old++
			p.add(t.breach(at, "%q is not plain English of today", w))
		}
	})
}

func (p *Prose) add(b Breach) { p.breaches = append(p.breaches, b) }

// Breaches returns the places of a folder whose prose is not plain.
func (p *Prose) Breaches() []Breach {
	out := slices.Clone(p.breaches)
	over := func(places []token.Position, n, limit int, what string) {
		if n <= limit {
			return
		}
		for _, at := range places {
			out = append(out, Breach{Place: at.String(), Message: fmt.Sprintf("%s: %d in this folder, at most %d", what, n, limit)})
		}
	}
	over(p.vague, p.Vague, perThousand(p.Words, maxVague), `"nobody", "somebody", "whoever" or "whatever"`)
	over(p.what, p.What, perThousand(p.Words, maxWhat), `"what"`)
	over(p.trailings, p.Trailing, (p.Lines*maxTrailing+99)/100, "comment behind code")
	return out
}

func perThousand(n, rate int) int { return (n*rate + 999) / 1000 }

// codeLines returns the lines of f on which code ends.
func codeLines(t *Tree, f *File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.Comment, *ast.CommentGroup:
			return false
		case *ast.File:
			return true
		}
		lines[t.Fset.Position(n.End()-1).Line] = true
		lines[t.Fset.Position(n.Pos()).Line] = true
		return true
	})
	return lines
}

// columns returns the width of a line. A tab is four columns wide.
func columns(l string) int { return len([]rune(strings.ReplaceAll(l, "\t", "    "))) }

func start(s string) string {
	if f := strings.Fields(s); len(f) > 8 {
		return strings.Join(f[:8], " ") + " …"
	}
	return s
}

var (
	fence    = regexp.MustCompile("^\\s*(```|~~~)")
	noProse  = regexp.MustCompile(`^\s*(\||<|#)|^\s*\[[^\]]+\]:`)
	markdown = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Documents finds long sentences and archaic words in a Markdown document. It skips code,
// tables and headings.
func Documents(name, text string) []Breach {
	var out []Breach
	inFence := false
	from, block := 0, []string(nil)
	flush := func() {
		for _, par := range paragraphs(block) {
			par = markdown.ReplaceAllString(par, "$1")
			for _, s := range longSentences(par) {
				out = append(out, Breach{Place: fmt.Sprintf("%s:%d", name, from), Message: fmt.Sprintf("a sentence has at most %d words, this one %d: %s", maxSentence, len(words(s)), start(s))})
			}
			for _, w := range old.FindAllString(par, -1) {
				out = append(out, Breach{Place: fmt.Sprintf("%s:%d", name, from), Message: fmt.Sprintf("%q is not plain English of today", w)})
			}
		}
		block = nil
	}
	for i, l := range strings.Split(text, "\n") {
		if len(block) == 0 && (strings.HasPrefix(l, "    ") || strings.HasPrefix(l, "\t")) {
			continue
		}
		if fence.MatchString(l) {
			inFence = !inFence
			flush()
			continue
		}
		switch {
		case inFence || noProse.MatchString(l) || strings.TrimSpace(l) == "":
			flush()
		case listItem.MatchString(l):
			flush()
			from = i + 1
			block = append(block, l)
		default:
			if len(block) == 0 {
				from = i + 1
			}
			block = append(block, l)
		}
	}
	flush()
	return out
}
