package subtree

// OpenWhere is Open on a kernel that follows symbolic links, or does not.
var OpenWhere = open
