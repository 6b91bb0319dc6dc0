// Package machine says in which run of the machine, and in which of its process tables, a pid counts: a
// pid alone is used again within seconds, and means another process in each container.
package machine
