"""The grammar and the scheme library of the route language, as data files."""
