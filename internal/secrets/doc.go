// Package secrets puts secrets of many kinds wherever a plan can hold one, runs acode on
// the plan, and searches for them in everything that was stored unsealed. It searches for
// the exact text and also with the rules of gitleaks, which others maintain and which
// know more forms. The package is its own module, so that acode does not depend on
// gitleaks.
package secrets
