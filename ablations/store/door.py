"""How a command of any package ends: in one line and a code, whatever the system does to it."""

from model.arguments import complain as complain
from model.arguments import guarded as guarded
