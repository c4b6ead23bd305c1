package auth

// Files says where users and rules come from.
type Files struct {
	Users     string // emanet's own TOML file, "" for none
	Passwords string // mosquitto's password file, "" for none
	ACL       string // mosquitto's ACL file, "" for none
	// Certificates: a client certificate gives a user name, with or without a line in a file.
	Certificates bool
	// Anonymous: clients without a user name are let in.
	Anonymous bool
}

// NameMax is the longest user name in bytes. It bounds what a session's record takes.
const NameMax = 255
