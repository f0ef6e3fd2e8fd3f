"""Who runs as whom when root starts Ringfence. For anybody else there is one user, and none of this.

    supervisor   root          keeps the others alive; owns the listening socket and DATA/run
      ├── spawner   root          sandboxes/: namespaces, id ranges, cgroups, mounts. Hears typed requests, nothing else
      └── server    `ringfence`   everything that reads what people and agents send; no capability, no way to one
            the sandboxes         users of their own, each a range of ids

    users.py    which user the server is
    folder.py   the data folder, made over to it
    view.py     becoming it for good, where it can reach the program and the data, and nothing more of root's home

The server counts as hostile here: nothing that it can write may lead a process of root's elsewhere. Standard library
only: the command line needs it.
"""
