package subtree

// OpenWhere is Open, with a flag that says whether the kernel follows symbolic links.
var OpenWhere = open
