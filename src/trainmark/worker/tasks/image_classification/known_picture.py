"""A made picture whose colours tell where in it one is, so that what a loader made of it tells the crop, and the rest.

``WIDTH`` x ``HEIGHT``: red rises from ``LOW`` by ``RISE`` from left to right, green from top to bottom. Blue is
``BLUE`` with stripes of ``DETAIL`` levels: upright ones with a period of ``ACROSS`` pixels, level ones of ``ALONG``.
A decoder that decodes at a reduced size loses them. As a JPEG (quality 92, no subsampling of the colours) it is off by
less than 4 levels anywhere, and by 1 on average.
"""

import base64
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

WIDTH, HEIGHT = 160, 120
LOW, RISE, BLUE = 16.0, 224.0, 64.0
DETAIL, ACROSS, ALONG = 24.0, 8, 4

JPEG = base64.b64decode(
    """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQ
CgwSExIQEw8QEBD/2wBDAQMDAwQDBAgEBAgQCwkLEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ
EBD/wAARCAB4AKADAREAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABAgJ/8QAHxAAAgMBAQEBAQEBAAAAAAAAAAMEJDEBFCMyAhND
/8QAGQEBAQEBAQEAAAAAAAAAAAAAAwQHCQUG/8QAGxEAAgIDAQAAAAAAAAAAAAAAAAMiJQJBQwH/2gAMAwEAAhEDEQA/AM81xfv+Wn2/
udj0JFthoSuLY/LQfWWPQvW2GhK4tjGh5MsehepsNCVxrGNCyZY9C9bYaEri2Py0L1lj0L1thoSuLY/LQsmWPQvW2GhK4v3xoXrLHoXr
bDQlcWx+WhZZ2PQvU2GhK4tjGhessehctsNCFxbH5aDkyx6F62w0J/iLYxoXrLHoXrbDQlcWxjQsmWPQvW2GhK4v3/LQsmWPQvU2GhK4
tj8tD9ZY9C9bYaEri2MaDkyx6F62w0JXF++NCyZY9C9bYaEri2Py0L1lj0L1thoSuLYxoWTLHoXqbDQlcWx+WhZMsehetsNCVxbGNC9Z
Y9C9bYaJsXFsY01P1lj0OaS2w0JXF++NCyZY9C9bYaEri99GNCyZY9C9TYaEri2MaDkyx6F62w0JXF76MaH6yx6F62w0JXFsY0LJlj0L
1thoSuLYxoPrLHoXrbDQlcWxjQ8mWPQvU2GhK4tjGhZMsehctsNCVxbGNByZY9C9bYaEri/fGhessehetsNCVxe+jGhZMsehetsNCVxb
GNCyZY9C9TYaELi99GNC9ZY9C9bYaEri2MaFkyx6F62w0JXFsY0L1lj0L1thoSuLYxoWWdj0L1thoSuLYxoWTLHoXqbDQlcWxjQsmWPQ
vW2GhK4vfRjQvWWPQvW2GibVxbGNNT9ZY9DmktkNCVxbGNCyZY9D0FthoSuL30Y0HJlj0LlMhoSuLYxoWTLHoXrbDQlcWxjQvWWPQvWy
GhP8RbGNCyZY9C9bIaEri2MaF6yx6F62w0IXF76MaFkyx6F6mQ0JXF76MaFkyx6F62w0JXFsY0L1lj0L1shoSuLYxoXrLHoXrZDQlcXv
oxoWTLHoXrbDQlcWxjQsmWPQvUyGhK4vfRjQvWWPQvW2GhK4tjGhZMsehctkNCVxbGNC9ZY9C9bIaEri2MaFkyx6HoLbDQlcWxjQsmWP
QuUyGhK41jGhZMsehetsNCf4i2MaF6yx6F62Q0TYuLYxpqXrLHoc01thoSuL30Y0PJlj0L1thoSuL30Y0HJlj0L1NhoSuL30Y0P1lj0L
1thoSuLYxoPrLHoXLbDQlcXvoxoWTLHoXrbDQlcXvoxoXrLHoegtsNCVxe+jGhZMsehcpsNCFxe+jGhZMsehetsNClxe+jGhessehets
NCVxe+jGhZMsehetsNCFxe+jGhessehetsNCVxe+jGhZMsehepsNCVxbGNC9ZY9C9bYaEri99GNCyZY9C9bYaEri9/3xoXrLHoXrbDQl
cXvoxoWTLHoXrbDQlcXvoxoOTLHoXqbDQlcXvoxoeTLHoXrbDQlcXvoxoXrLHoXLbDRNq4vfRjTUvWWPQ5prbDQlcXvoxoWTLHoXrZDQ
hcWxjQsmWPQvU2GhK4vfRjQvWWPQuWyGhK4vfRjQsmWPQvW2GhK4vfRjQvWWPQvW2GhK4vfRjQsmWPQvWyGhK4vfRjQsmWPQvU2GhK4t
jGg5MsehetkNCVxe+jGh+ssehetsNCVxe+jGhZMsehetsNCVxbGNC9ZY9C9bIaEri99GNCyZY9C9TYaEri99GNCyZY9C9bIaEri99GNB
yZY9C9bYaEri2MaF6yx6F62w0JXF76MaFkyx6F62Q0IXFsY0LJlj0L1NhoSuL30Y0P1lj0LlshoSuLYxoOTLHoegtsNE2/xFsY01P1lj
0Oaa2w0JXF76MaFkyx6Fy2w0JXFsY0HJlj0L1NhoSuLYxofrLHoXrbDQlcTvoxoWTLHoXrbDQlcT740L1lj0L1thoSuLYxoWTLHoXrbD
QhcTvoxoWTLHoXqbDQlcWxjQcmWPQvW2GhK4vfRjQvWWPQvW2GhK4tjGhZMsehetsNCVxbGOC9ZY9C9bYaEri2MaHkyx6F6mw0JXE76M
aDkyx6Fy2w0JXFsY0L1lj0PQW2GhK4tjGhessehetsNCVxe/740LJlj0LlthoSuLYxoWTLHoegpsNCVxe+jGhessehctsNCVxbGNCyZY
9C9bYaJs/iL98aankyx6HNJbYaEri2MaDkyx6F62w0JXEsY0LJlj0L1NhoSuLYxofrLHoXrbDQlcXvoxoOTLHoXrbDQlcXvoxoXrLHoX
rbDQlcWxjQ8mWPQvW2GhK4vfRjQcmWPQvU2GhK4ljGhZMsehetsNCVxbGNC9ZY9C9bYaEri2MaFkyx6F62w0JXE++NC9ZY9C9bYaEri2
McFkyx6F6mw0IXE76MaFkyx6F62w0JXFsY0L1lj0LlthoT/EWxjQsmWPQvW2GhK4vfRjQsmWPQ9BbYaEri2MaFkyx6Fymw0JXFsY0L1l
j0L1thoSuL30Y0LJlj0L1thom1cSxjTU8mWPQ5prbDQlcSxjQfWWPQvW2GhK4ljGh5MsehepsNCFxLGNB9ZY9C9bYaEriWMaFkyx6F62
w0JXEsY0L1lj0L1thoSuJYxoWTLHoXrbDQlcSxjQsmWPQvU2GhK4ljGh+ssehetsNCVxLGNByZY9C5bYaEriWMaFkyx6F62w0JXEsY0L
1lj0PQW2GhK4ljGhZMsehcpsNCVxLGNCyZY9C9bYaEriWMaF6yx6F62w0JXE++NCyZY9C9bYaEriWMaF6yx6F62w0JXEsY0LJlj0L1Nh
oQuJYxoXrLHoXrbDQn+IljGhZMsehetsNE2ri2Maalkyx6HNJbYaEri2MaF6yx6F62w0JXFsY0PJlj0L1NhoSuLYxoOTLHoXrbDQlcWx
jQsmWPQvW2GhK4tjGhessehetsNCVxbGNCyZY9C9bYaELi2MaFkyx6F6mw0JXF56MaF6yx6F62w0JXFsY0LJlj0L1thoSuLYxoXrLHoX
rbDQlcWxjQsmWPQvW2GhK4tjGhZMsehepsNCVxeejGhZMsehctsNCVxbGNC9ZY9C9bYaEri2MaFkyx6F62w0JXF56MaF6yx6F62w0JXF
sY0LJlj0L1NhoSuLYxoWTLHoXrbDQlcXnoxoOTLHoXrbDRNi4tjGmp5MsehzTW2GhK4v3xoXrLHoXrbDQlcXnoxoWTLHoXKbDQlcWxjQ
smWPQvW2GhK4tjGhessehetsNCVxbGNC9ZY9C9bYaEri89GNCyZY9C9bYaEri2MaDkyx6F6mw0JXF56MaH6yx6F62w0JXFsY0LJlj0L1
thoSuLYxoXrLHoXrbDQlcXnoxoWTLHoXrbDQlcWxjQsmWPQvU2GhK4nPRjQcmWPQvW2GhK4tjGhessehetsNCVxbGNCyZY9C9bYaELi2
MaF6yx6F62w0JXF56MaHkyx6Fymw0JXFsf8AUHJlj0L1thoSuLz0Y0P1lj0L1thom3+IvPRjTUsmWPQ5prbDQlcWxjQvWWPQvW2GhK4v
PRjQsmWPQvU2GhC4vPRjQsmWPQvW2GhK4tjGhessehetsNCVxeejGhZMsehetsNCVxeejGhZMsehetsNCVxbGNByZY9C9TYaEri89GND
9ZY9C5bYaEri2MaDkyx6F62w0JXF++ND9ZY9C9bYaEri89GNCyZY9C9bYaEri89GNByZY9C9TYaEri89GNDyzsehetsNCf4i89GNB9ZY
9C9bYaEri89GNCyZY9C9bYaEri/fGhessehetsNCVxeejGhZMsehepsNCFxbGNCyZY9C9bYaEri89GNC9ZY9C9bYaJtXF56Maan6yx6H
NJbYaEri89GNByZY9C9bYaEri89GNDyZY9C9TYaEri89GNByZY9C9bYaEri2MaH6yx6F62w0JXF5/vjQsmWPQvW2GhK4vPRjQfWWPQvW
2GhK4tjGh5MsehepsNCVxeejGg+ssehctsNCVxeejGhZMsehetsNCVxeejGhessehetsNCFxef740LJlj0L1thoSuLYxoWTLHoXqbDQl
cWxjQ/WWPQvW2GhK4vPRjQcmWPQvW2GhK4vPRjQsmWPQvW2GhK4tjGhessehetsNCVxeejGhZMsehepsNCVxeejGhZMsehetsNCVxbGN
C9ZY9C9bYaJtXF++NNT9ZY9DmmtsNCVxbGNCyZY9C9bYaELi2MaDkyx6F6mw0JXF++NCyZY9C9bYaEri89GNC9ZY9C9bYaEri2MaFkyx
6F62w0JXF++OC9ZY9C9bYaEri2MaHkyx6Fymw0JXFsY0HJlj0L1thoT/ABFsY0L1lj0L1thoSuLYxoXrLHoXrbDQlcWxjQsmWPQvW2Gh
K4tjGhZMsehepsNCVxbGNC9ZY9C9bYaELi2McFkyx6F62w0J/iLYxoXrLHoXrbDQpcWxjQss7HoXrbDQhcWxjQsmWPQvU2GhK4tjGhZM
sehetsNCVxbGNC9ZY9C9bYaJtXF56Maal6yx6HNJbYaEri2MaFkyx6F62w0JXF56Py0LJlj0L1NhoSuNYxoWWdj0LlthoT/EXnoxoXrL
HoXrbDQlcWxjQsmWPQvW2GhK4v3xoXrLHoXrbDQlcWxjQsmWPQvU2GhC4vPRjQsmWPQvW2GhK4v3xoXrLHoXrbDQn+ItjGhZMsehetsN
CVxeejGhZMsehetsNCVxfvjQcmWPQvU2GhK4vPRjQ/WWPQvW2GhK4tjGhZMsehetsNCVxfvjQvWWPQvW2GhK4vPRjQsmWPQvW2GhK4vP
RjQsmWPQvU2GhK4v3xwOTLHoXLbDQlcXnoxoXrLHoXrbDRNi4tj8tNT9ZY9DmotsNCVxfvjQsmWPQvW2GhK4tj8tCyZY9C5TYaEri2Ma
F6yx6F62w0JXF++NCyZY9C9bYaE/xFsfloWTLHoXrbDQlcWx+WhessehetsNCVxfvjQsmWPQvU2GhK4tj8tCyZY9C9bYaEri2MaF6yx6
F62w0JXF++NCyZY9C9bYaEri2Py0L1lj0L1thoQuLYxoOWdj0L1NhoSuL9/y0P1lj0L1thoSuLY/LQcmWPQvW2GhK4tj8tD9ZY9C9bYa
Eri2MaFkyx6F62w0JXFsfloOTLHoXKbDQlcWxjQ8mWPQvW2GhP8AEWx+Whe52PQvW2Gj/9k=
    """
)
"""The picture as a baseline JPEG."""

TURNED_OVER = base64.b64decode(
    """
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgICAgMCAgIDAwMDBAYEBAQEBAgGBgUGCQgKCgkICQkKDA8MCgsOCwkJDRENDg8QEBEQCgwS
ExIQEw8QEBD/2wBDAQMDAwQDBAgEBAgQCwkLEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBD/wAAR
CAB4AKADAREAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABAgG/8QAHxAAAgMBAQEBAQEBAAAAAAAAAAMEJDEBFCMyAhND/8QAGQEBAQEB
AQEAAAAAAAAAAAAAAwQHCQUI/8QAGxEAAgIDAQAAAAAAAAAAAAAAAAMiJQJBQwH/2gAMAwEAAhEDEQA/AN2uVY/TT599XY9D4LWqGhK5X31o
WS7HoXrVDQlcqx+mhZLsehcpUNCVyrGtC9XY9C9aoaErlffWhZLsehetUNCf4lWP00LJdj0L1qhoSuVY/TQvV2PQvWqGhK5X31oWS7HoXqVD
Qlcqx+mhZLsehetUNCVyrGtC9XY9C9aoaErlffWhZLsehetUNCVyrH6aF6ux6F61Q0IXKsa0HLCx6F6lQ0JXK+/6aH6ux6F61Q0JXKsfpoOS
7HoXrVDQlcqx+mh+rsehetUNCVyrGtCyXY9C9aoaErlWP00HJdj0LlKhoSuVY1oeS7HoXrVDQn+JVj9NC9wsehetUNEfLlc9GtNs9XY9Dnot
UNCVyrGtCyXY9C9aoaErlc9H6aFkux6F6lQ0JXJsa0LLCx6Fy1Q0J/iVz0a0L1dj0L1qhoSuVY1oWS7HoXrVDQlcr760L1dj0L1qhoSuVY1o
WS7HoXqVDQhcrno1oWS7HoXrVDQlcr760L1dj0L1qhoT/EqxrQsl2PQvWqGhK5XPRrQsl2PQvWqGhK5X31oOS7HoXqVDQlcrno1ofq7HoXrV
DQlcqxrQsl2PQvWqGhK5X31oXq7HoXrVDQlcrno1oWS7HoXrVDQlcrno1oWS7HoXqVDQlcr764HJdj0LlqhoSuVz0a0L1dj0L1qhoj5cr760
271dj0Oeq1Q0JXKsa0LJdj0L1qhoQuVY1oOS7HoXqVDQlcr760LJdj0L1qhoSuVz0a0L1dj0L1qhoSuVY1oWS7HoXrVDQlcr764L1dj0L1qh
oSuVY1oeS7HoXKVDQlcqxrQcl2PQvWqGhP8AEqxrQvV2PQvWqGhK5VjWhersehetUNCVyrGtCyXY9C9aoaErlWNaFkux6F6lQ0JXKsa0L1dj
0L1qhoQuVY1wWS7HoXrVDQn+JVjWhersehetUNClyrGtCywsehetUNCFyrGtCyXY9C9SoaErlWNaFkux6F61Q0JXKsa0L1dj0L1qhoj5crno
1ptvq7Hoc81qhoSuVz0a0HJdj0L1qhoSuVz0a0PJdj0L1KhoSuVz0a0HJdj0L1qhoSuVY1ofq7HoXrVDQlcrn++tCyXY9C9aoaErlc9GtB9X
Y9C9aoaErlWNaHkux6F6lQ0JXK56NaD6ux6Fy1Q0JXK56NaFkux6F61Q0JXK56NaF6ux6F61Q0IXK5/vrQsl2PQvWqGhK5VjWhZLsehepUNC
VyrGtD9XY9C9aoaErlc9GtByXY9C9aoaErlc9GtCyXY9C9aoaErlWNaF6ux6F61Q0JXK56NaFkux6F6lQ0JXK56NaFkux6F61Q0JXKsa0L1d
j0L1qhoj7+JXPRrTbcl2PQ56LVDQlcqxrQvV2PQvWqGhK5XPRrQsl2PQvUqGhC5XPRrQsl2PQvWqGhK5VjWhersehetUNCVyuejWhZLsehet
UNCVyuejWhZLsehetUNCVyrGtByXY9C9SoaErlc9GtD9XY9C5aoaErlWNaDkux6F61Q0JXK++tD9XY9C9aoaErlc9GtCyXY9C9aoaErlc9Gt
ByXY9C9SoaErlc9GtDywsehetUNCf4lc9GtB9XY9C9aoaErlc9GtCyXY9C9aoaErlffWhersehetUNCVyuejWhZLsehepUNCFyrGtCyXY9C9
aoaErlc9GtC9XY9C9aoaI+XKsa023Jdj0Oei1Q0JXK++tC9XY9C9aoaErlc9GtCyXY9C5SoaErlWNaFkux6F61Q0JXKsa0L1dj0L1qhoSuVY
1oXq7HoXrVDQlcrno1oWS7HoXrVDQlcqxrQcl2PQvUqGhK5XPRrQ/V2PQvWqGhK5VjWhZLsehetUNCVyrGtC9XY9C9aoaErlc9GtCyXY9C9a
oaErlWNaFkux6F6lQ0JXL56NaDkux6F61Q0JXKsa0L1dj0L1qhoSuVY1oWS7HoXrVDQhcqxrQvV2PQvWqGhK5XPRrQ8l2PQuUqGhK5Vj/qDk
ux6F61Q0JXK56NaH6ux6F61Q0R8uVY1ptmS7Hoc9FqhoSuVY1oXq7HoXrVDQlcqxrQ8l2PQvUqGhK5VjWg5LsehetUNCVyrGtCyXY9C9aoaE
rlWNaF6ux6F61Q0JXKsa0LJdj0L1qhoQuVY1oWS7HoXqVDQlcrno1oXq7HoXrVDQlcqxrQsl2PQvWqGhK5VjWhersehetUNCVyrGtCyXY9C9
aoaErlWNaFkux6F6lQ0JXK56NaFkux6Fy1Q0JXKsa0L1dj0L1qhoSuVY1oWS7HoXrVDQlcrno1oXq7HoXrVDQlcqxrQsl2PQvUqGhK5VjWhZ
LsehetUNCVyuejWg5LsehetUNEfLl2Nabdkux6HPRaoaErl2NaD6ux6F61Q0JXLsa0PJdj0L1KhoQuXY1oPq7HoXrVDQlcuxrQsl2PQvWqGh
K5djWhersehetUNCVy7GtCyXY9C9aoaErl2NaFkux6F6lQ0JXLsa0P1dj0L1qhoSuXY1oOS7HoXLVDQlcuxrQsl2PQvWqGhK5djWherseh6C
1Q0JXLsa0LJdj0LlKhoSuXY1oWS7HoXrVDQlcuxrQvV2PQvWqGhK5f31oWS7HoXrVDQlcuxrQvV2PQvWqGhK5djWhZLsehepUNCFy7GtC9XY
9C9aoaE/xLsa0LJdj0L1qhoj7+JX31ptuS7Hoc81qhoSuVY1oOS7HoXrVDQlcuxrQsl2PQvUqGhK5VjWh+rsehetUNCVyu+jWg5LsehetUNC
Vyu+jWhersehetUNCVyrGtDyXY9C9aoaErld9GtByXY9C9SoaErl2NaFkux6F61Q0JXKsa0L1dj0L1qhoSuVY1oWS7HoXrVDQlcv760L1dj0
L1qhoSuVY1wWS7HoXqVDQhcvvo1oWS7HoXrVDQlcqxrQvV2PQuWqGhP8SrGtCyXY9C9aoaErld9GtCyXY9D0FqhoSuVY1oWS7HoXKVDQlcqx
rQvV2PQvWqGhK5XfRrQsl2PQvWqGiPv4lWNabb6ux6HPVaoaErld9GtCyXY9C5aoaErlWNaDkux6F6lQ0JXKsa0P1dj0L1qhoSuX30a0LJdj
0L1qhoSuX99aF6ux6F61Q0JXKsa0LJdj0L1qhoQuX30a0LJdj0L1KhoSuVY1oOS7HoXrVDQlcrvo1oXq7HoXrVDQlcqxrQsl2PQvWqGhK5Vj
XBersehetUNCVyrGtDyXY9C9SoaErl99GtByXY9C5aoaErlWNaF6ux6HoLVDQlcqxrQvV2PQvWqGhK5Xf99aFkux6Fy1Q0JXKsa0LJdj0PQU
qGhK5XfRrQvV2PQuWqGhK5VjWhZLsehetUNEfLld9GtNt9XY9DnotUNCVyu+jWhZLsehetcNCFyrGtCyXY9C9SoaErld9GtC9XY9C5a4aErl
d9GtCyXY9C9aoaErld9GtC9XY9C9aoaErld9GtCyXY9C9a4aErld9GtCyXY9C9SoaErlWNaDkux6F61w0JXK76NaH6ux6F61Q0JXK76NaFku
x6F61Q0JXKsa0L1dj0L1rhoSuV30a0LJdj0L1KhoSuV30a0LJdj0L1rhoSuV30a0HJdj0L1qhoSuVY1oXq7HoXrVDQlcrvo1oWS7HoXrXDQh
cqxrQsl2PQvUqGhK5XfRrQ/V2PQuWuGhK5VjWg5Lseh6C1Q0R8uVY1ptvq7Hoc9FqhoSuV30a0PJdj0L1qhoSuV30a0HJdj0L1KhoSuV30a0
P1dj0L1qhoSuVY1oPq7HoXLVDQlcrvo1oWS7HoXrVDQlcrvo1oXq7HoegtUNCVyu+jWhZLsehcpUNCFyu+jWhZLsehetUNClyu+jWhersehe
tUNCVyu+jWhZLsehetUNCFyu+jWhersehetUNCVyu+jWhZLsehepUNCVyrGtC9XY9C9aoaErld9GtCyXY9C9aoaErld/31oXq7HoXrVDQlcr
vo1oWS7HoXrVDQlcrvo1oOS7HoXqVDQlcrvo1oeS7HoXrVDQlcrvo1oXq7HoXLVDRHy5VjWm2+rsehz0WuGhK5VjWhZLseh6C1Q0JXK76NaD
kux6Fylw0JXKsa0LJdj0L1qhoSuVY1oXq7HoXrXDQn+JVjWhZLsehetcNCVyrGtC9XY9C9aoaELld9GtCyXY9C9S4aErld9GtCyXY9C9aoaE
rlWNaF6ux6F61w0JXKsa0L1dj0L1rhoSuV30a0LJdj0L1qhoSuVY1oWS7HoXqXDQlcrvo1oXq7HoXrVDQlcqxrQsl2PQuWuGhK5VjWherseh
etcNCVyrGtCyXY9D0FqhoSuVY1oWS7HoXKXDQlcmxrQsl2PQvWqGhP8AEqxrQvV2PQvWuGiPVyrGtNt9XY9DnotUNCVyvvrQsl2PQvWqGhK5
XfRrQsl2PQvUqGhK5VjWg5LsehetUNCVyu+jWh+rsehetUNCVyrGtCyXY9C9aoaErlWNaD6ux6F61Q0JXKsa0PJdj0L1KhoSuVY1oWS7HoXL
VDQlcqxrQcl2PQvWqGhK5X31oXq7HoXrVDQlcrvo1oWS7HoXrVDQlcqxrQsl2PQvUqGhC5XfRrQvV2PQvWqGhK5VjWhZLsehetUNCVyrGtC9
XY9C9aoaErlWNaFlhY9C9aoaErlWNaFkux6F6lQ0JXKsa0LJdj0L1qhoSuV30a0L1dj0L1qhoj5cr7/pptvuFj0Oei1Q0JXKsfpoPq7HoXrV
DQlcqxrQ8l2PQvUqGhK5NjWhZLsehetUNCVyrH6aF6ux6F61Q0JXKsfpoWS7HoXrVDQlcr760L1dj0L1qhoSuVY/TQssLHoXqVDQlcqxrQvV
2PQuWqGhC5Vj9NByXY9C9aoaE/xKsa0L1dj0L1qhoSuVY1oWS7HoXrVDQlcr7/poWS7HoXqVDQlcqx+mh+rsehetUNCVyrGtByXY9C9aoaEr
lffWhZLsehetUNCVyrH6aF6ux6F61Q0JXKsa0LJdj0L1KhoSuVY/TQsl2PQvWqGhK5VjWhersehetUNH/9k=
    """
)
"""The same with top and bottom exchanged: green falls from top to bottom."""

PICTURES = (JPEG, TURNED_OVER)
"""The picture of a class: the first one of classes with an even number, the second one of the others."""

CLASSES = 8
"""The most classes of the samples; with several, each but the last has a neighbour with the other picture."""


def class_of(number: int, classes: int) -> int:
    """Return the class of a sample, from 0, of a network with so many ``classes``."""
    return number % min(classes, CLASSES)


FOLDER, TFRECORD, RECORDIO = "folder", "tfrecord", "recordio"


def write_known(form: str, folder: Path, count: int, classes: int = 1) -> Path:
    """Write ``count`` samples of the first of ``classes`` into an empty folder; return what ``--data`` would name."""
    _WRITERS[form](folder, [class_of(number, classes) for number in range(count)])
    return folder


def _images(folder: Path, labels: Sequence[int]) -> None:
    for label in set(labels):
        (folder / f"class{label}").mkdir()
    for number, label in enumerate(labels):
        (folder / f"class{label}" / f"{number:06d}.jpg").write_bytes(PICTURES[label % 2])


def _tfrecord(folder: Path, labels: Sequence[int]) -> None:
    """Write one shard with ImageNet's feature keys, and the index that DALI wants.

    The messages of tensorflow/core/example/example.proto, and the framing of tensorflow/core/lib/io/record_writer.h.
    """
    records = {label: _record(label) for label in set(labels)}
    shard, offset = folder / "train-00000-of-00001", 0
    lines = []
    for label in labels:
        lines.append(f"{offset} {len(records[label])}\n")
        offset += len(records[label])
    shard.write_bytes(b"".join(records[label] for label in labels))
    (folder / "idx").mkdir()
    (folder / "idx" / f"{shard.name}.idx").write_text("".join(lines), encoding="ascii")


def _record(label: int) -> bytes:
    """Return a sample of a class from 0; ImageNet's records count classes from 1."""
    features = [
        _feature(b"image/encoded", _field(1, _field(1, PICTURES[label % 2]))),
        _feature(b"image/class/label", _field(3, _field(1, _varint(label + 1)))),
    ]
    example = _field(1, b"".join(features))
    length = struct.pack("<Q", len(example))
    return length + _masked_crc(length) + example + _masked_crc(example)


def _feature(name: bytes, value: bytes) -> bytes:
    return _field(1, _field(1, name) + _field(2, value))


def _field(number: int, data: bytes) -> bytes:
    """Return a protobuf field of bytes, a message or packed numbers."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _masked_crc(data: bytes) -> bytes:
    """Return the CRC32C (polynomial 0x1EDC6F41, reflected) as TFRecord masks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _recordio(folder: Path, labels: Sequence[int]) -> None:
    """Write ``train.rec`` and its index: dmlc-core's include/dmlc/recordio.h, mxnet/recordio.py."""
    records = bytearray()
    offsets: list[int] = []
    for number, label in enumerate(labels):
        offsets.append(len(records))
        data = struct.pack("<IfQQ", 0, float(label), number, 0) + PICTURES[label % 2]
        records += struct.pack("<II", 0xCED7230A, len(data)) + data + bytes(-len(data) % 4)
    (folder / "train.rec").write_bytes(records)
    lines = [f"{number}\t{offset}\n" for number, offset in enumerate(offsets)]
    (folder / "train.idx").write_text("".join(lines), encoding="ascii")


_WRITERS: dict[str, Callable[[Path, Sequence[int]], None]] = {
    FOLDER: _images,
    TFRECORD: _tfrecord,
    RECORDIO: _recordio,
}
