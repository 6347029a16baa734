# As CANN's does: reads variables that may not be set, and exports where it is.
export ASCEND_HOME_PATH="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
export PYTHONPATH="$ASCEND_HOME_PATH/python:$PYTHONPATH"
export LD_LIBRARY_PATH="$ASCEND_HOME_PATH/lib64:$LD_LIBRARY_PATH"
