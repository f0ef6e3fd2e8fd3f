"""The native runtime: sandboxes by bubblewrap, with nothing to install, no root and no daemon.

runtime.py   Native: what the service calls, asynchronous
   │
   │         run by root: spawned.py ── spawning.py ── spawner.py, a small process that alone keeps root; a new act is
   │         in Boxes, in spawning.OPERATIONS and in Spawned
   │
boxes.py     Boxes: every act on this host, as whoever runs it
   ├── box.py         a sandbox's folder, its lock, and what says that it lives
   ├── bwrap.py       the command line
   ├── cgroups.py     limits, freezer and figures, v2 and v1
   ├── ids.py         the host's user of each sandbox, when run by root
   ├── maps.py        ids in user namespaces, and work done there by nobody: mapped.py is that process
   │   ├── archive.py, layer.py   reading and unpacking archives of images
   │   └── copying.py             copying what a hostile program wrote
   ├── images.py      layers by digest, and names for lists of them
   ├── snapshots.py   what sandboxes wrote, kept as layers
   ├── host_image.py  this machine's own /usr as an image
   └── tree.py        removing what a hostile program wrote
"""
