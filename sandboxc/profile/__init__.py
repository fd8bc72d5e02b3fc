"""Profile directories: what a compile leaves behind, to be reviewed, checked in and loaded at run time.

``codec`` turns layers and losses into plain JSON and back, ``write`` makes the files, ``load`` reads and verifies
them without a front end, ``check`` tells whether they still say what the policy says.
"""
